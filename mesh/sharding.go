package mesh

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Sharding is a Spec that inference may extend: a user's annotation of a value.
//
//	@[dp,_]      as the Spec: both dims are closed and stay so
//	@[dp?,?]     dim 0 is split by dp, perhaps by more; dim 1 is open
//	@[dp!1,?]    dim 0 counts only in round 1, after everything with priority 0
//	@[?,?]-{tp}  tp must not split any dim
type Sharding struct {
	Spec Spec
	// Freedom has one entry for each dim of Spec.
	Freedom []Freedom
	// Replicated holds the axes along which the value must be replicated, whatever is inferred.
	Replicated Axes
}

// Freedom is what inference may do with one dim. The zero value is a closed dim of the first priority.
type Freedom struct {
	// Open means that further axes may split the dim, after the present ones.
	Open bool
	// Priority is the round from which the dim's axes count; 0 is the first.
	Priority int
}

// Closed returns a Sharding that requests exactly s.
func Closed(s Spec) Sharding { return Sharding{Spec: s, Freedom: make([]Freedom, len(s.Dims))} }

// Open returns a Sharding that begins with s, every dim of which may be split further.
func Open(s Spec) Sharding {
	sh := Closed(s)
	for d := range sh.Freedom {
		sh.Freedom[d].Open = true
	}
	return sh
}

// Equal reports whether both are equal.
func (s Sharding) Equal(o Sharding) bool {
	return s.Spec.Equal(o.Spec) && slices.Equal(s.Freedom, o.Freedom) && s.Replicated.Equal(o.Replicated)
}

// Check returns an error if the Sharding is invalid for tensors of a rank on a mesh.
func (s Sharding) Check(m *Mesh, rank int) error {
	if err := s.Spec.Check(m, rank); err != nil {
		return err
	}
	if len(s.Freedom) != rank {
		return fmt.Errorf("sharding %s: freedom of %d dims: want %d", s.Spec, len(s.Freedom), rank)
	}
	return m.checkUse("sharding "+s.String(), append(s.Spec.Used(), s.Replicated...), s.Spec.user)
}

// String returns the Sharding's text, as in the table above.
func (s Sharding) String() string {
	words := make([]string, len(s.Spec.Dims))
	for d, a := range s.Spec.Dims {
		words[d] = s.dimText(d, a)
	}
	text := "@[" + strings.Join(words, ",") + "]" + s.Spec.partialText()
	if len(s.Replicated) > 0 {
		text += "-" + braces(s.Replicated)
	}
	return text
}

func (s Sharding) dimText(d int, a Axes) string {
	var f Freedom
	if d < len(s.Freedom) {
		f = s.Freedom[d]
	}
	text := a.String()
	switch {
	case f.Open && len(a) == 0:
		text = "?"
	case f.Open:
		text += "?"
	}
	if f.Priority != 0 {
		text += "!" + strconv.Itoa(f.Priority)
	}
	return text
}

func braces(a Axes) string {
	words := make([]string, len(a))
	for i, s := range a {
		words[i] = s.String()
	}
	return "{" + strings.Join(words, ",") + "}"
}

// ParseSharding parses a Sharding as String prints it. The @ is optional.
func ParseSharding(text string) (Sharding, error) {
	s := &scanner{text: text}
	sh, err := s.sharding()
	if err != nil {
		return Sharding{}, fmt.Errorf("sharding %q: %w", text, err)
	}
	return sh, nil
}

func (s *scanner) sharding() (sh Sharding, err error) {
	s.eat('@')
	if err = s.want('['); err != nil {
		return sh, err
	}
	sh = Closed(Whole(0))
	if err = s.list(']', func() error { return s.dim(&sh) }); err != nil {
		return sh, err
	}
	if s.eat('+') {
		if err = s.pending(&sh.Spec); err != nil {
			return sh, err
		}
	}
	if s.eat('-') {
		if err = s.replicated(&sh); err != nil {
			return sh, err
		}
	}
	return sh, s.end()
}

// dim parses the axes of one dim and its freedom.
func (s *scanner) dim(sh *Sharding) (err error) {
	var axes Axes
	free := Freedom{Open: s.eat('?')}
	if !free.Open {
		if axes, err = s.axes(); err != nil {
			return err
		}
		free.Open = s.eat('?')
	}
	if s.eat('!') {
		if free.Priority, err = s.number("a priority"); err != nil {
			return err
		}
		if free.Priority < 0 {
			return fmt.Errorf("priority: got %d, want at least 0", free.Priority)
		}
	}
	sh.Spec.Dims, sh.Freedom = append(sh.Spec.Dims, axes), append(sh.Freedom, free)
	return nil
}

func (s *scanner) pending(spec *Spec) error {
	if err := s.want('{'); err != nil {
		return err
	}
	err := s.list('}', func() (err error) {
		var p Pending
		if p.Sub, err = s.sub(); err == nil && s.eat(':') {
			p.Reduce, err = s.reduce()
		}
		spec.Partial = append(spec.Partial, p)
		return err
	})
	spec.sortPartial()
	return err
}

func (s *scanner) replicated(sh *Sharding) error {
	if err := s.want('{'); err != nil {
		return err
	}
	return s.list('}', func() error {
		sub, err := s.sub()
		sh.Replicated = append(sh.Replicated, sub)
		return err
	})
}
