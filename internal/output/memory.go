package output

import (
	"bytes"
	"syscall"
	"time"
)

// memory is what was last seen on the disk, or put there, so that a pass reads
// only what may have changed since. It belongs to the transaction that runs.
//
// It can be wrong. Times have ticks (4 ms in most kernels before 6.13, 2 s on
// FAT), and what someone else writes in the tick in which we looked leaves the
// same times. Waiting does not help: an hour later they are still the same.
// Hence the difference that known.firm makes. A memory that is not firm is
// believed only where it says that the file is not what is wanted: the file is
// then replaced, whatever is in it. That there is nothing to do, and what the
// previous bytes were where no hard link has them, comes from a firm memory or
// from the disk.
//
// What no time tells is left to the resync: writes through a shared mapping, and
// a clock set back to the very tick.
type memory struct {
	files map[string]known // by file name
	// hash is that of all files' bytes together, "" when it is not known.
	hash string
}

// known is the same for one file.
type known struct {
	bytes []byte // often those of a Content; never written to
	// id says in which inode they were. The zero value is equal to none, and then the
	// bytes are good for sparing a hash, and for nothing that concerns the disk.
	id    identity
	since time.Time // when id was seen first
	firm  bool      // the bytes were read from id when it was older than slack
}

// slack is longer than any file system's tick, so that what is written after
// it gets another time. Only the process's own clock measures it: how far that
// of a file server is off does not matter.
const slack = 3 * time.Second

// identity tells whether a file has changed. The change time is the part that
// no one can set back; the others are for what shares its tick. The path is no
// part of it: an inode has the same bytes wherever it is found.
type identity struct {
	dev, ino     uint64
	size         int64
	mtime, ctime syscall.Timespec
}

// holds tells whether k was seen in the inode that id was taken of, and nothing
// has been written to it since, but for what is said above.
func (k known) holds(id identity) bool { return id != identity{} && k.id == id }

func newMemory() *memory { return &memory{files: map[string]known{}} }

// put remembers one file.
func (m *memory) put(name string, k known) {
	if old, ok := m.files[name]; !ok || !same(old.bytes, k.bytes) {
		m.hash = ""
	}
	m.files[name] = k
}

// all are the remembered bytes of all files.
func (m *memory) all() Content {
	c := make(Content, len(m.files))
	for name, k := range m.files {
		c[name] = k.bytes
	}
	return c
}

// refersTo tells whether some remembered bytes are b, or a part of it.
func (m *memory) refersTo(b []byte) bool {
	for _, k := range m.files {
		if len(k.bytes) > 0 && &k.bytes[0] == &b[0] { // a part is always the beginning: see readLike
			return true
		}
	}
	return false
}

// adopt replaces what is in c by the remembered bytes that are equal to it, and
// tells whether all of it was. From then on same is enough: bytes that are not
// the remembered ones differ from them.
func (m *memory) adopt(c Content) bool {
	all := true
	for name, b := range c {
		if k, ok := m.files[name]; ok && (same(k.bytes, b) || bytes.Equal(k.bytes, b)) {
			c[name] = k.bytes
		} else {
			all = false
		}
	}
	return all
}

// settle keeps the hash of what was wanted, if that is what is remembered.
// Otherwise it would take a second copy of everything to know whose hash it is.
func (m *memory) settle(lives []*live, hash string) {
	for _, l := range lives {
		if k, ok := m.files[l.file.Name]; !ok || !same(k.bytes, l.want) {
			return
		}
	}
	m.hash = hash
}

// same tells whether a and b are the same bytes in memory. Equal ones may be not.
func same(a, b []byte) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}
