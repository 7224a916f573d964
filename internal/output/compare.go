package output

// Comparison says how the disk differs from what was rendered.
type Comparison struct {
	// Hash is the hash of what was rendered.
	Hash string
	// Marker tells whether the daemon is known to have it.
	Marker bool
	// Files are all files of the output, in the order of Options.Files.
	Files []FileComparison
}

// FileComparison is the same for one file.
type FileComparison struct {
	Name, Path string
	// Missing: there is no such file, or it cannot be reached; then Bytes is set, too.
	Missing bool
	// Bytes, Mode and Owner tell what differs.
	Bytes, Mode, Owner bool
	// Current is what is on disk, Rendered what belongs there (after Normalise). They may
	// share their memory, with the Content too.
	Current, Rendered []byte
	// Err is why Apply could not replace this file: no directory, not a regular file,
	// an unknown owner. The other fields say what could be found out nevertheless.
	Err error
}

// Differs tells whether anything about the file differs, as far as it is known.
func (f FileComparison) Differs() bool { return f.Missing || f.Bytes || f.Mode || f.Owner }

// InSync tells whether Apply would do nothing.
func (c Comparison) InSync() bool {
	for _, f := range c.Files {
		if f.Differs() || f.Err != nil {
			return false
		}
	}
	return c.Marker
}

// Changed lists the names of the files that differ.
func (c Comparison) Changed() []string {
	var names []string
	for _, f := range c.Files {
		if f.Differs() {
			names = append(names, f.Name)
		}
	}
	return names
}

// Compare compares c with the disk, which it always reads, and the marker. It
// needs no rights but to read. An error means that c is not what this output can write.
func (o *Output) Compare(c Content) (Comparison, error) {
	c, err := o.normalise(c)
	if err != nil {
		return Comparison{}, err
	}
	cmp := Comparison{Hash: hash(o.opts.Files, c)}
	cmp.Marker = o.readMarker() == cmp.Hash
	lives, errs := o.observe(c, newMemory(), true)
	for i, l := range lives {
		cmp.Files = append(cmp.Files, FileComparison{
			Name: l.file.Name, Path: l.file.Path,
			Missing: !l.exists, Bytes: l.bytesDiffer(), Mode: l.modeDiffers(), Owner: l.ownerDiffers(),
			Current: l.bytes, Rendered: l.want,
			Err: errs[i],
		})
	}
	return cmp, nil
}
