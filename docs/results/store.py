"""store.py: measures what a campaign would lose if its folder were one SQLite database in WAL mode (docs/campaigns.md).

Each row is an experiment with Python's sqlite3, in a mount namespace of its own. A second host of a network file system
sees the same files, but not the memory of the first: here it has a copy of its own of the file of shared memory (-shm).
"""
import multiprocessing
import os
import pathlib
import shutil
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time

RECORD = "x" * 600  # bytes: the journal of fa1 has lines of 580 in the median


def connect(path, mode="rwc"):
    return sqlite3.connect(f"file:{path}?mode={mode}", uri=True, isolation_level=None, timeout=10)


def make(folder):
    folder.mkdir()
    db = connect(folder / "night.db")
    db.execute("pragma journal_mode = wal")
    db.execute("create table found(n integer primary key, record text)")
    db.close()
    return folder / "night.db"


def rows(path, mode="rwc"):
    db = None
    try:
        db = connect(path, mode)
        return db.execute("select count(*) from found").fetchone()[0]
    except sqlite3.Error as error:
        return f"{type(error).__name__}: {error}"
    finally:
        if db:
            db.close()


def write_for_ever(path, count):
    db = connect(path)
    for n in range(1, 10**6):
        db.execute("insert into found values(?, ?)", (n, RECORD))
        count.value = n  # committed
        time.sleep(0.002)


def killed_while_read(top, mode, own_memory):
    """A campaign is killed while `status` has the database open."""
    path, count = make(top), multiprocessing.Value("q", 0)
    campaign = multiprocessing.Process(target=write_for_ever, args=(path, count))
    campaign.start()
    while count.value < 100:
        time.sleep(0.01)
    if own_memory:
        (top / "memory").write_bytes(b"")
        subprocess.run(["mount", "--bind", top / "memory", f"{path}-shm"], check=True)
    status = connect(path, mode)
    status.execute("select count(*) from found").fetchone()
    time.sleep(0.5)
    os.kill(campaign.pid, signal.SIGKILL)
    campaign.join()
    seen = status.execute("select count(*) from found").fetchone()[0]
    status.close()
    if own_memory:
        subprocess.run(["umount", f"{path}-shm"], check=True)
    return f"{count.value} committed, {seen} seen by status, {rows(path)} left"


def cost(top, processes, use_database):
    """Microseconds to keep one record: median, and the worst of a hundred."""
    path = make(top)

    def work(queue, number):
        db, took = connect(path), []
        db.execute("pragma synchronous = off")
        file = open(top / f"trace-{number}", "ab", buffering=0)
        for n in range(3000):
            time.sleep(0.0005)  # the case itself
            begun = time.perf_counter()
            if use_database:
                db.execute("insert or replace into found values(?, ?)", (number * 64 + n % 64, RECORD))
            else:
                file.write(f"{RECORD}\n".encode())
            took.append(1e6 * (time.perf_counter() - begun))
        queue.put(took)

    queue = multiprocessing.Queue()
    jobs = [multiprocessing.Process(target=work, args=(queue, n)) for n in range(processes)]
    for job in jobs:
        job.start()
    took = sorted(sum((queue.get() for _ in jobs), []))
    return f"median {statistics.median(took):.0f}, 1 of 100 over {took[len(took) * 99 // 100]:.0f}"


def main():
    if os.environ.get("INSIDE") != "1":
        os.execvpe("unshare", ["unshare", "-rm", sys.executable] + sys.argv, os.environ | {"INSIDE": "1"})
    top = pathlib.Path(tempfile.mkdtemp(prefix="store-"))
    for n in range(5):
        print("kill -9, status on another host:            ", killed_while_read(top / f"other{n}", "rw", True))
    print("kill -9, status there opens it to read alone:", killed_while_read(top / "read", "ro", True))
    print("kill -9, status on the same host:            ", killed_while_read(top / "same", "rw", False))
    path = make(top / "closed")
    subprocess.run(["mount", "--bind", path.parent, path.parent], check=True)
    subprocess.run(["mount", "-o", "remount,ro,bind", path.parent], check=True)
    print("a folder that cannot be written to:          ", rows(path, "ro"))
    subprocess.run(["umount", path.parent], check=True)
    disk = top / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", disk], check=True)
    shutil.copy(path, disk)
    subprocess.run(["dd", "if=/dev/zero", f"of={disk}/filler"], stderr=subprocess.DEVNULL)
    print("a full disk:                                 ", rows(disk / "night.db", "ro"))
    subprocess.run(["umount", disk], check=True)
    for processes in (1, 2, 4):
        for use in (False, True):
            print(f"us a record, {processes} job(s), {'one database' if use else 'files'}:".ljust(44),
                  cost(top / f"cost{processes}{use}", processes, use))
    shutil.rmtree(top)


if __name__ == "__main__":
    main()
