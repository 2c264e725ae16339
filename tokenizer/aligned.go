package tokenizer

import (
	"slices"
	"unicode/utf8"
)

// span is a range of bytes of the original text.
type span struct{ begin, end int }

// aligned is a text on its way to tokens, with the origin of each byte.
type aligned struct {
	text string
	// from has, for each byte of text, the bytes of the original that it came from; nil if offsets are not
	// needed.
	from []span
	// first says that the text begins where the original does.
	first bool
}

// slice returns the part of the text between two bytes.
func (a aligned) slice(begin, end int) aligned {
	part := aligned{text: a.text[begin:end], first: a.first && begin == 0}
	if a.from != nil {
		part.from = a.from[begin:end]
	}
	return part
}

// origin returns the bytes of the original that the bytes from begin to end came from.
func (a aligned) origin(begin, end int) span {
	if a.from == nil || begin == end {
		return span{}
	}
	return span{a.from[begin].begin, a.from[end-1].end}
}

// editor writes a changed copy of an aligned text.
type editor struct {
	old  aligned
	text []byte
	from []span
	// start is the byte of the old text at which the new one begins.
	start int
}

func edit(old aligned) *editor {
	return &editor{old: old, text: make([]byte, 0, len(old.text)+len(old.text)/8)}
}

// keep copies the bytes of the old text from begin to end.
func (e *editor) keep(begin, end int) {
	if len(e.text) == 0 {
		e.start = begin
	}
	e.text = append(e.text, e.old.text[begin:end]...)
	if e.old.from != nil {
		e.from = append(e.from, e.old.from[begin:end]...)
	}
}

// put writes new text that replaces the byte at of the old one.
func (e *editor) put(text string, at int) {
	if len(e.text) == 0 {
		e.start = at
	}
	e.text = append(e.text, text...)
	if e.old.from != nil {
		for range len(text) {
			e.from = append(e.from, e.old.from[at])
		}
	}
}

// begin writes new text before all of the old one; it replaces nothing.
func (e *editor) begin(text string) {
	e.text = append(e.text, text...)
	if len(e.old.from) > 0 {
		at := e.old.from[0].begin
		e.from = append(e.from, slices.Repeat([]span{{at, at}}, len(text))...)
	}
}

func (e *editor) done() aligned {
	from := e.from
	if e.old.from != nil && from == nil {
		from = []span{}
	}
	return aligned{text: string(e.text), from: from, first: e.old.first && e.start == 0}
}

// mapRunes replaces every character r of a text by f(r); "" removes it.
func mapRunes(a aligned, f func(rune) string) aligned {
	e := edit(a)
	for i, r := range a.text {
		_, size := utf8.DecodeRuneInString(a.text[i:])
		if r == utf8.RuneError && size == 1 { // invalid UTF-8 stays as it is
			e.keep(i, i+1)
			continue
		}
		e.put(f(r), i)
	}
	return e.done()
}

// prepend puts text before a; its origin is a's first character. An empty a stays empty.
func prepend(a aligned, text string) aligned {
	if a.text == "" {
		return a
	}
	e := edit(a)
	e.put(text, 0)
	e.keep(0, len(a.text))
	return e.done()
}
