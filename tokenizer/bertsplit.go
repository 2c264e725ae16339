package tokenizer

import (
	"unicode"
	"unicode/utf8"
)

// bertSplit cuts at white space, which it leaves out, and around each punctuation mark.
type bertSplit struct{}

func (bertSplit) split(a aligned, piece func(aligned)) {
	spaces := matchSplit{matcher: runeClass(unicode.IsSpace), behavior: removed}
	marks := matchSplit{matcher: runeClass(isPunctuation)}
	spaces.split(a, func(word aligned) { marks.split(word, piece) })
}

// lengthSplit cuts a text into pieces of a fixed number of characters.
type lengthSplit int

func (n lengthSplit) split(a aligned, piece func(aligned)) {
	begin, count := 0, 0
	for i := 0; i < len(a.text); {
		_, size := utf8.DecodeRuneInString(a.text[i:])
		i += size
		if count++; count == int(n) || i == len(a.text) {
			piece(a.slice(begin, i))
			begin, count = i, 0
		}
	}
}

// scriptSplit cuts where the script changes. Spaces, marks and digits have the script of the text before
// them; Hiragana and Katakana count as Han, as in SentencePiece.
type scriptSplit struct{}

func (scriptSplit) split(a aligned, piece func(aligned)) {
	begin, last := len(a.text), "" // text before the first letter of a script is dropped, as in the library
	for i, r := range a.text {
		s := scriptOf(r)
		if s == "" {
			continue
		}
		if s != last {
			if last != "" {
				piece(a.slice(begin, i))
			}
			begin = i
		}
		last = s
	}
	if begin < len(a.text) {
		piece(a.slice(begin, len(a.text)))
	}
}

// scriptOf returns a character's script, "" if it belongs to any script.
func scriptOf(r rune) string {
	switch {
	case r == ' ':
		return ""
	case r == 0x30fc, unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana):
		return "Han"
	case unicode.In(r, unicode.Latin):
		return "Latin"
	}
	for name, table := range unicode.Scripts { // a character has one script, so the order does not matter
		if unicode.Is(table, r) {
			return name
		}
	}
	return "Common"
}
