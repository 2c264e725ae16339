package tokenizer

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// matcher finds the matches of a split or a replacement in a text.
type matcher interface {
	// each calls match for the matches in text, in order; they do not overlap. Matches of regular expressions
	// may be empty.
	each(text string, match func(begin, end int))
}

// literal matches a text.
type literal string

func (l literal) each(text string, match func(begin, end int)) {
	if l == "" {
		return
	}
	for at := 0; ; {
		i := strings.Index(text[at:], string(l))
		if i < 0 {
			return
		}
		match(at+i, at+i+len(l))
		at += i + len(l)
	}
}

// runeClass matches single characters.
type runeClass func(rune) bool

func (f runeClass) each(text string, match func(begin, end int)) {
	for i, r := range text {
		if f(r) {
			_, size := utf8.DecodeRuneInString(text[i:])
			match(i, i+size)
		}
	}
}

// isPunctuation reports whether a rune is ASCII or Unicode punctuation, as BERT defines it.
func isPunctuation(r rune) bool {
	return r < utf8.RuneSelf && r > ' ' && r != 0x7f && !isAlphanumeric(r) || unicode.IsPunct(r)
}

func isAlphanumeric(r rune) bool {
	return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
}
