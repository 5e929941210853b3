# %% added
import threading
from concurrent.futures import ThreadPoolExecutor

with ThreadPoolExecutor(2) as pool:
    print(list(pool.map(lambda v: v + 1, range(4))))
thread = threading.Thread(target=print, args=("done",))
thread.start()
thread.join()
