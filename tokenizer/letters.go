package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// byteLetters maps each byte to a visible letter, as the tokens of byte-level files are written: printable
// Latin-1 maps to itself, the rest to the characters from U+0100 on (GPT-2's bytes_to_unicode). letterBytes
// is its inverse.
var byteLetters, letterBytes = func() (letters [256]string, bytes map[rune]byte) {
	bytes = map[rune]byte{}
	next := rune(256)
	for c := range rune(256) {
		letter := c
		if c <= ' ' || c >= 0x7f && c <= 0xa0 || c == 0xad {
			letter = next
			next++
		}
		letters[c] = string(letter)
		bytes[letter] = byte(c)
	}
	return letters, bytes
}()

// toLetters returns text with each byte written as its letter.
func toLetters(text string) string {
	var b strings.Builder
	b.Grow(len(text) + len(text)/4)
	for i := range len(text) {
		b.WriteString(byteLetters[text[i]])
	}
	return b.String()
}

// letters is like toLetters for aligned text; the origin of a letter is the whole character of its
// byte.
func letters(a aligned) aligned {
	if a.from == nil {
		return aligned{text: toLetters(a.text), first: a.first}
	}
	e := edit(a)
	for i := 0; i < len(a.text); {
		_, size := utf8.DecodeRuneInString(a.text[i:])
		for j := range size {
			e.put(byteLetters[a.text[i+j]], i)
		}
		i += size
	}
	return e.done()
}

// appendBytes appends the bytes that token's letters represent, or token itself if one of its characters is
// no such letter.
func appendBytes(text []byte, token string) []byte {
	start := len(text)
	for _, r := range token {
		c, ok := letterBytes[r]
		if !ok {
			return append(text[:start], token...)
		}
		text = append(text, c)
	}
	return text
}
