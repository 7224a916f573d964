// Package output keeps one output in force: its files, one check command, one
// reload command. It stages, checks, commits, reloads and remembers.
//
// # Data flow
//
//	Content (all files in memory)
//	  -> compare with what was last seen   memory.go
//	     on disk, with disk and marker     live.go, read.go, compare.go, marker.go
//	  -> stage beside the live files,      stage.go
//	     and hash meanwhile                sum.go
//	  -> check command on the staged ones  commands.go
//	  -> remove the marker, rename, fsync  commit.go
//	  -> reload and verify commands        commands.go
//	  -> write the marker                  marker.go
//
// transaction.go joins these into one transaction, run.go decides when one is due.
//
// # Guarantees
//
//  1. A live file is the previous or the new one, whole, at every instant, also
//     when the process is killed or the disk is full (but see InPlace).
//  2. What is not byte for byte what the check command accepted is never renamed
//     into place. Nor is a file that has nothing in it but white space, unless AllowEmpty.
//  3. A file ends in a newline; see Normalise.
//  4. The marker names the content that the daemon is known to have. It is gone
//     before the first live file changes and before each reload command starts,
//     and comes back only after reload and verify succeeded. So a reload that
//     failed or was cut short is tried again, across restarts too, also when the
//     files are back to what an older marker named.
//  5. All files of an output are staged before the first is renamed. If one
//     rename fails, those already made are undone.
//  6. If the reload fails the previous files are put back: bytes, mode, owner,
//     or absence. What they need for that is on disk before the first rename
//     (a hard link), so a full disk cannot prevent it.
//  7. Nothing staged is left behind by a transaction that ends, however it ends.
//     What a killed one left is removed by Sweep.
//  8. One transaction per output at a time, between processes too (a lock file
//     in the runtime directory). Outputs never wait for each other.
//  9. What others do to a live file is found and put right in the next pass, though
//     a file whose inode, size and times are as they were last seen is not read again.
//     That nothing needs to be done is only concluded from bytes that were read, and
//     late enough for a later write to show in the times; see memory. A resync, the
//     first pass, Compare and Check read everything.
//
// # Memory and time
//
// An Output keeps one copy of what is on disk: the slices of the Content that it
// was given, so these must not be changed before Options.Release gives them back.
// A change of a few bytes in a large file costs writing and syncing the whole
// file; hashing takes place beside it, and nothing is read. Content that is on disk already costs a comparison in
// memory, and is hashed once.
//
// # After a rollback
//
// When the reload command fails, the daemon has refused the new files and still
// runs the previous ones, so it is not reloaded again with the latter: a second
// reload can only do harm. When the reload succeeded but the verify command
// fails, the daemon has taken the new files. Then the previous ones, once they
// are back, are reloaded as well, unless one of them did not exist before. This
// one reload does not wait for MinInterval, because it mends what is broken now;
// those after it count from it.
//
// # Steps
//
// Options.Hook is called with these names, in this order; F stands for a file's
// name, and files that need no change are left out:
//
//	begin, compared, staged:F…, checked, kept:F…, marker-removed, renamed:F…,
//	dir-synced, reloaded, verified, marker-written, cleaned
//
// and after a failed reload or verify:
//
//	rolled-back:F… (last file first), rollback-synced, rollback-reloaded, cleaned
//
// # Concurrency
//
// Run belongs to one goroutine, which owns the schedule. Apply, Check, Compare,
// Verify, Sweep and State may be called from any goroutine. The memory belongs to
// the transaction that holds the lock; Check and Compare do without. The package
// starts one goroutine of its own: the one that hashes. It belongs to the Apply or
// Check that started it, only reads, and has ended when they return.
package output
