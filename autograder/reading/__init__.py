"""From the bytes of a notebook to cells: nothing a learner wrote is executed here."""
