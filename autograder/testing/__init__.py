"""What a hidden test uses: the `student`, what is expected of a reply, and what is then told."""
