package output

import (
	"fmt"
	"os"
	"slices"
)

// keep puts the previous file where rollback finds it, before anything is
// replaced. A hard link costs no space and keeps everything, down to ACLs and
// security labels; where links are not possible (another owner's file under
// fs.protected_hardlinks, a bind mount, FAT) it is a copy.
func (t *transaction) keep(l *live) error {
	if !l.exists || l.file.InPlace { // nothing to keep; or the link would be the file itself, whose bytes are in memory
		return nil
	}
	// The staged name is unique, so this one is, too.
	path := t.staged[l.file.Name] + keptSuffix
	if err := t.o.link(l.target, path); err != nil {
		if err = t.o.ascertain(l); err == nil {
			path, _, err = t.o.stage(l, l.bytes, l.mode, l.uid, l.gid)
		}
		if err != nil {
			return fmt.Errorf("keeping the previous file %s for a rollback: %w", l.target, err)
		}
	}
	t.kept[l.file.Name] = path
	return nil
}

// keptSuffix comes after a staged file's own suffix, and is one that Sweep knows.
const keptSuffix = ".prev" + stagedSuffix

// commit replaces the changed files. If it fails, they are as before.
func (t *transaction) commit() error {
	for _, l := range t.changed {
		if err := t.keep(l); err != nil {
			return err
		}
		t.o.step("kept:" + l.file.Name)
	}
	if err := t.o.removeMarker(); err != nil {
		return err
	}
	t.o.step("marker-removed")
	for _, l := range t.changed {
		if err := t.replace(l); err != nil {
			err = fmt.Errorf("replacing %s: %w", l.target, wayOut(err, l.file.Path, l.dir()))
			return join(err, t.rollback())
		}
		t.o.step("renamed:" + l.file.Name)
	}
	if len(t.changed) == 0 {
		return nil
	}
	if err := t.syncDirs(); err != nil {
		return join(err, t.rollback())
	}
	t.o.step("dir-synced")
	return nil
}

// replace puts the staged file in the place of the live one.
func (t *transaction) replace(l *live) error {
	staged := t.staged[l.file.Name]
	if l.file.InPlace && l.exists {
		t.done = append(t.done, l) // before it is: half overwritten must be undone, too
		t.o.known.put(l.file.Name, known{bytes: l.want})
		return overwrite(l.target, l.want, l.wantMode, l.wantUID, l.wantGID)
	}
	if err := os.Rename(staged, l.target); err != nil {
		return err
	}
	t.done = append(t.done, l)
	delete(t.staged, l.file.Name)
	t.o.known.put(l.file.Name, t.o.renamed(l))
	return nil
}

// renamed is what is known of a live file just after the staged one took its
// place. Renaming has changed its change time, so that it is looked at again; all
// else must be as when it was staged. Someone else may have written to it since
// then, in the same tick or with its other times put back. Then this is wrong, and
// does no harm: it is not firm, see memory.
func (o *Output) renamed(l *live) known {
	k := known{bytes: l.want}
	info, err := os.Lstat(l.target)
	if err != nil {
		return k
	}
	id := o.identityOf(l, info)
	was := l.staged
	was.ctime = id.ctime
	if id == was {
		k.id, k.since = id, o.opts.Now()
	}
	return k
}

// rollback puts the previous files back, the last one first. All are tried.
func (t *transaction) rollback() error {
	var errs []error
	for _, l := range slices.Backward(t.done) {
		var err error
		switch {
		case !l.exists:
			err = removeIfThere(l.target)
		case l.file.InPlace:
			err = overwrite(l.target, l.bytes, l.mode, l.uid, l.gid)
		default:
			if err = os.Rename(t.kept[l.file.Name], l.target); err == nil {
				delete(t.kept, l.file.Name)
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("rollback: %s is still the new file: %w", l.target, err))
			continue
		}
		// Links and renames have changed its change time: the next pass reads it.
		t.o.known.put(l.file.Name, known{bytes: l.bytes})
		t.o.step("rolled-back:" + l.file.Name)
	}
	if len(t.done) > 0 {
		if err := t.syncDirs(); err != nil {
			errs = append(errs, fmt.Errorf("rollback: %w", err))
		}
		t.o.step("rollback-synced")
	}
	t.rolledBack = len(errs) == 0 && len(t.done) > 0
	return join(errs...)
}

// existedBefore tells whether rollback has put back files only, and removed none.
func (t *transaction) existedBefore() bool {
	return !slices.ContainsFunc(t.done, func(l *live) bool { return !l.exists })
}

// discard removes what is still staged or kept.
func (t *transaction) discard() {
	for _, m := range []map[string]string{t.staged, t.kept} {
		for name, path := range m {
			// Nothing depends on it: no daemon reads the file, and Sweep comes by at the next start.
			_ = removeIfThere(path)
			delete(m, name)
		}
	}
}

func (t *transaction) syncDirs() error {
	var dirs []string
	for _, l := range t.done {
		if dir := l.dir(); !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	for _, dir := range dirs {
		if err := syncDir(dir); err != nil {
			return fmt.Errorf("making the change durable: %w", err)
		}
	}
	return nil
}
