package ipvs

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/hashicorp/go-multierror"
)

// Fault is one thing that is wrong with a rules file, and where. Its text is
// FILE:LINE:COLUMN: message, as compilers write it.
type Fault struct {
	File string
	Line int
	// Column counts bytes from 1, as Go's compiler does; a tab is one.
	Column  int
	Message string
}

func (f *Fault) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", f.File, f.Line, f.Column, f.Message)
}

// inOrder sorts faults by place, and makes one error of them; nil for none.
func inOrder(faults []*Fault) error {
	if len(faults) == 0 {
		return nil
	}
	slices.SortStableFunc(faults, func(a, b *Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	errs := &multierror.Error{}
	for _, f := range faults {
		errs.Errors = append(errs.Errors, f)
	}
	return errs
}
