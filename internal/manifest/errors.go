package manifest

import (
	"fmt"
	"strings"

	"github.com/hashicorp/go-multierror"
)

// place is where an object stands.
type place struct {
	file string
	doc  int // from 1; documents without content do not count
	line int // from 1; 0: not known
	item int // of a list whose items' lines are not known, from 1; 0: none
}

func (p place) String() string {
	if p.item > 0 {
		return fmt.Sprintf("%s: document %d (line %d), item %d", p.file, p.doc, p.line, p.item)
	}
	return fmt.Sprintf("%s: document %d (line %d)", p.file, p.doc, p.line)
}

// maxProblems is how many errors of one load are told: enough to mend in one
// go, and not a log line of megabytes when a whole file is of the wrong shape.
const maxProblems = 50

// problems gathers errors.
type problems struct {
	errs []error
	more int
}

func (p *problems) add(err error) {
	if p.full() {
		p.more++
		return
	}
	p.errs = append(p.errs, err)
}

func (p *problems) full() bool { return len(p.errs) >= maxProblems }

func (p *problems) join(q problems) {
	for _, e := range q.errs {
		p.add(e)
	}
	p.more += q.more
}

// err is all of them as one, nil for none.
func (p *problems) err() error {
	switch {
	case len(p.errs) == 0:
		return nil
	case len(p.errs) == 1 && p.more == 0:
		return p.errs[0]
	}
	errs := p.errs
	if p.more > 0 {
		errs = append(errs[:len(errs):len(errs)], fmt.Errorf("and %d more", p.more))
	}
	return &multierror.Error{Errors: errs, ErrorFormat: oneAline}
}

func oneAline(errs []error) string {
	lines := make([]string, len(errs))
	for i, e := range errs {
		lines[i] = e.Error()
	}
	return strings.Join(lines, "\n")
}
