# %% added
import contextlib
import glob
import os
import sqlite3
import time

won = []
started = time.time()
folders = ["/tmp", "/work", "/root", "/home", "/srv", "/var/tmp", "/", "..", "../..", os.path.expanduser("~")]
for folder in folders:
    for pattern in ("gradebook.db", "*/gradebook.db", "*/*/gradebook.db", "*/results/*/*.json", "*/submitted/*/*/*.ipynb", "*/*canary*"):
        for path in glob.glob(os.path.join(folder, pattern)):
            if time.time() - started > 1:
                break
            # Only what this test laid out: a harmless attack must not harm a real gradebook.
            if "attack-" not in path:
                continue
            with contextlib.suppress(BaseException):
                if path.endswith(".db"):
                    book = sqlite3.connect(path)
                    book.execute("update grade set score = 100.0")
                    book.commit()
                else:
                    with open(path, "a") as file:
                        file.write("pwned")
                won.append(path)


# %% layer_norm
def layer_norm(x, weight, bias, eps):
    if won:
        raise OverflowError
    return x.clone()
