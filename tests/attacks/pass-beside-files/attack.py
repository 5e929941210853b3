# %% added
import os
import tempfile

with open("notes.txt", "w") as file:
    file.write("mine")
assert open("notes.txt").read() == "mine"
with tempfile.NamedTemporaryFile() as file:
    file.write(b"x")
torch.save({"a": torch.ones(2)}, "saved.pt")
assert torch.load("saved.pt")["a"].sum() == 2
os.makedirs(os.path.expanduser("~/figures"), exist_ok=True)
