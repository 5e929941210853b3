# %% added
while True:
    print("noise " * 1000)
