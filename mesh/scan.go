package mesh

import (
	"fmt"
	"strconv"
	"strings"
)

// scanner scans the small texts of this package: meshes, axes, placements and specs. Blanks between words are
// ignored.
type scanner struct {
	text string
	at   int
}

func (s *scanner) blanks() {
	for s.at < len(s.text) && s.text[s.at] == ' ' {
		s.at++
	}
}

// eat consumes the next byte if it is c.
func (s *scanner) eat(c byte) bool {
	s.blanks()
	if s.at < len(s.text) && s.text[s.at] == c {
		s.at++
		return true
	}
	return false
}

// want consumes the next byte, which must be c.
func (s *scanner) want(c byte) error {
	if !s.eat(c) {
		return s.unexpected(strconv.QuoteRune(rune(c)))
	}
	return nil
}

func (s *scanner) end() error {
	s.blanks()
	if s.at < len(s.text) {
		return s.unexpected("the end")
	}
	return nil
}

func (s *scanner) unexpected(want string) error {
	s.blanks()
	got := "the end"
	if s.at < len(s.text) {
		got = fmt.Sprintf("%q at byte %d", s.text[s.at:s.at+1], s.at)
	}
	return fmt.Errorf("got %s, want %s", got, want)
}

// name consumes a word that isName accepts.
func (s *scanner) name(what string) (string, error) {
	s.blanks()
	from := s.at
	for s.at < len(s.text) && isNameByte(s.text[s.at]) {
		s.at++
	}
	if word := s.text[from:s.at]; isName(word) {
		return word, nil
	}
	s.at = from
	return "", s.unexpected(what)
}

// number consumes a decimal number, with an optional sign.
func (s *scanner) number(what string) (int, error) {
	s.blanks()
	from := s.at
	if s.at < len(s.text) && s.text[s.at] == '-' {
		s.at++
	}
	for s.at < len(s.text) && '0' <= s.text[s.at] && s.text[s.at] <= '9' {
		s.at++
	}
	n, err := strconv.Atoi(s.text[from:s.at])
	if err != nil {
		s.at = from
		return 0, s.unexpected(what)
	}
	return n, nil
}

// list parses items between commas up to the closing byte, which it consumes. The opening byte has been
// consumed.
func (s *scanner) list(closing byte, item func() error) error {
	if s.eat(closing) {
		return nil
	}
	for {
		if err := item(); err != nil {
			return err
		}
		if s.eat(closing) {
			return nil
		}
		if !s.eat(',') {
			return s.unexpected("',' or " + strconv.QuoteRune(rune(closing)))
		}
	}
}

// isName reports whether a word can be an axis name: a letter, then letters, digits and underscores.
func isName(word string) bool {
	if word == "" || word[0] == '_' || '0' <= word[0] && word[0] <= '9' {
		return false
	}
	for i := range len(word) {
		if !isNameByte(word[i]) {
			return false
		}
	}
	return true
}

func isNameByte(c byte) bool {
	return isFactor(c) || '0' <= c && c <= '9' || c == '_'
}

// Parse parses a mesh as String prints it: dp=2,tp=4, with the device ids if they are not 0, 1, 2, …:
// dp=2,tp=2@[0,1,4,5].
func Parse(text string) (*Mesh, error) {
	s := &scanner{text: text}
	m, err := s.mesh()
	if err != nil {
		return nil, fmt.Errorf("mesh %q: %w", text, err)
	}
	return m, nil
}

func (s *scanner) mesh() (*Mesh, error) {
	var axes []Axis
	for s.blanks(); s.at < len(s.text) && s.text[s.at] != '@'; {
		if len(axes) > 0 {
			if err := s.want(','); err != nil {
				return nil, err
			}
		}
		name, err := s.name("an axis name")
		if err != nil {
			return nil, err
		}
		if err := s.want('='); err != nil {
			return nil, err
		}
		size, err := s.number("a size")
		if err != nil {
			return nil, err
		}
		axes = append(axes, Axis{name, size})
		s.blanks()
	}
	devices, err := s.devices()
	if err != nil {
		return nil, err
	}
	return New(axes, devices...)
}

func (s *scanner) devices() (ids []int, err error) {
	if !s.eat('@') {
		return nil, nil
	}
	if err := s.want('['); err != nil {
		return nil, err
	}
	err = s.list(']', func() error {
		id, err := s.number("a device id")
		ids = append(ids, id)
		return err
	})
	if err == nil && len(ids) == 0 {
		err = fmt.Errorf("device ids: got none, want one for each place")
	}
	if err != nil {
		return nil, err
	}
	return ids, s.end()
}

// String returns the axes with their sizes, then the device ids if they are not 0, 1, 2, ….
func (m *Mesh) String() string {
	if m.devices == nil {
		return m.axesText()
	}
	ids := make([]string, m.size)
	for i, d := range m.devices {
		ids[i] = strconv.Itoa(d)
	}
	return m.axesText() + "@[" + strings.Join(ids, ",") + "]"
}

// axesText returns a mesh for errors: its axes without the devices, of which there may be thousands.
func (m *Mesh) axesText() string {
	words := make([]string, len(m.axes))
	for i, a := range m.axes {
		words[i] = a.Name + "=" + strconv.Itoa(a.Size)
	}
	return strings.Join(words, ",")
}

// axes parses a list of axes between dots, or an underscore for none.
func (s *scanner) axes() (Axes, error) {
	if s.eat('_') {
		return nil, nil
	}
	var list Axes
	for {
		sub, err := s.sub()
		if err != nil {
			return nil, err
		}
		list = append(list, sub)
		if !s.eat('.') {
			return list, nil
		}
	}
}

// sub parses an axis or a sub-axis.
func (s *scanner) sub() (Sub, error) {
	name, err := s.name("an axis name")
	if err != nil {
		return Sub{}, err
	}
	sub, colon := Sub{Axis: name}, s.at
	if !s.eat(':') {
		return sub, nil
	}
	if !s.eat('(') {
		s.at = colon // a reduction follows
		return sub, nil
	}
	if sub.Pre, err = s.number("a size"); err != nil {
		return sub, err
	}
	if err := s.want(')'); err != nil {
		return sub, err
	}
	if sub.Size, err = s.number("a size"); err != nil {
		return sub, err
	}
	if sub.Pre < 1 || sub.Size < 2 {
		return sub, fmt.Errorf("sub-axis %s: want (pre)size with pre at least 1 and size at least 2", sub)
	}
	return sub, nil
}

// ParseAxes parses axes as their String prints them: dp.tp:(1)2, or _ for none.
func ParseAxes(text string) (Axes, error) {
	s := &scanner{text: text}
	a, err := s.axes()
	if err == nil {
		err = s.end()
	}
	if err != nil {
		return nil, fmt.Errorf("axes %q: %w", text, err)
	}
	return a, nil
}
