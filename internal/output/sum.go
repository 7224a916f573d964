package output

// sum is the hash of a transaction's content. Hashing takes as long as writing,
// so it runs beside that, and whoever needs the hash first waits for it.
type sum struct {
	value string
	not   string // a hash of other content; "": none is known
	done  chan struct{}
}

// sum begins to hash c, which is known to be other content than not is the hash of.
func (o *Output) sum(c Content, not string) *sum {
	s := &sum{not: not, done: make(chan struct{})}
	// It belongs to the transaction, and ends before that does: see finish. It only reads.
	go func() {
		defer close(s.done)
		s.value = o.hash(o.opts.Files, c)
	}()
	return s
}

// summed is a hash that is known.
func summed(value string) *sum {
	s := &sum{value: value, done: make(chan struct{})}
	close(s.done)
	return s
}

// wait returns the hash; "" if there is none to wait for.
func (s *sum) wait() string {
	if s == nil {
		return ""
	}
	<-s.done
	return s.value
}

// is tells whether the hash is h, where possible without waiting for it.
func (s *sum) is(h string) bool { return h != "" && h != s.not && s.wait() == h }
