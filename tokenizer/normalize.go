package tokenizer

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// normalizer rewrites text before it is cut into pieces.
type normalizer func(aligned) aligned

// unicodeForm returns a normalizer to one of Unicode's normalization forms. If a character becomes several,
// all have its origin; if several become one, it has the origin of the first.
func unicodeForm(form, decomposed norm.Form) normalizer {
	return func(a aligned) aligned {
		if form.IsNormalString(a.text) {
			return a
		}
		e := edit(a)
		for at := 0; at < len(a.text); {
			end := at + form.NextBoundaryInString(a.text[at:], true)
			if out := form.String(a.text[at:end]); out == a.text[at:end] {
				e.keep(at, end)
			} else {
				putSegment(e, out, at, end, decomposed)
			}
			at = end
		}
		return e.done()
	}
}

// putSegment writes out, which is the normal form of the old text from begin to end.
func putSegment(e *editor, out string, begin, end int, decomposed norm.Form) {
	var source []int // the offset of the old character, for each character of its decomposition
	for i, r := range e.old.text[begin:end] {
		for range utf8.RuneCountInString(decomposed.String(string(r))) {
			source = append(source, begin+i)
		}
	}
	n := 0
	for _, r := range out {
		e.put(string(r), source[min(n, len(source)-1)])
		n += utf8.RuneCountInString(decomposed.String(string(r)))
	}
}

func lowercase(a aligned) aligned {
	if strings.IndexFunc(a.text, func(r rune) bool { return unicode.ToLower(r) != r || r == 'İ' }) < 0 {
		return a
	}
	return mapRunes(a, func(r rune) string {
		if r == 'İ' { // the only character whose lower case is two characters
			return "i\u0307"
		}
		return string(unicode.ToLower(r))
	})
}

// remove returns a normalizer that removes the characters for which drop is true.
func remove(drop func(rune) bool) normalizer {
	return func(a aligned) aligned {
		if strings.IndexFunc(a.text, drop) < 0 {
			return a
		}
		return mapRunes(a, func(r rune) string {
			if drop(r) {
				return ""
			}
			return string(r)
		})
	}
}

func isMark(r rune) bool           { return unicode.Is(unicode.M, r) }
func isNonspacingMark(r rune) bool { return unicode.Is(unicode.Mn, r) }

// strip returns a normalizer that removes white space at the ends.
func strip(left, right bool) normalizer {
	return func(a aligned) aligned {
		begin, end := 0, len(a.text)
		if left {
			begin = end - len(strings.TrimLeftFunc(a.text, unicode.IsSpace))
		}
		if right {
			end = begin + len(strings.TrimRightFunc(a.text[begin:], unicode.IsSpace))
		}
		return a.slice(begin, end)
	}
}

// replace writes content in place of each match of m. Its origin is the match's last character or, for an
// empty match, the character before it.
func replace(m matcher, content string) normalizer {
	return func(a aligned) aligned {
		e, done, found := edit(a), 0, false
		m.each(a.text, func(begin, end int) {
			e.keep(done, begin)
			_, size := utf8.DecodeLastRuneInString(a.text[:end])
			if end > 0 {
				e.put(content, end-size)
			} else {
				e.begin(content)
			}
			done, found = end, true
		})
		if !found {
			return a
		}
		e.keep(done, len(a.text))
		return e.done()
	}
}

// nmt applies SentencePiece's NMT rules: control characters are removed, odd spaces become spaces.
func nmt(a aligned) aligned {
	return mapRunes(a, func(r rune) string {
		switch {
		case r >= 1 && r <= 8, r == 0xb, r >= 0xe && r <= 0x1f, r == 0x7f, r == 0x8f, r == 0x9f:
			return ""
		case r == 9, r == 0xa, r == 0xc, r == 0xd, r == 0x1680, r >= 0x200b &&
			r <= 0x200f, r == 0x2028, r == 0x2029,
			r == 0x2581, r == 0xfeff, r == 0xfffd:
			return " "
		}
		return string(r)
	})
}

// bertNormalizer returns the normalization of BERT's tokenizers, in their order.
func bertNormalizer(clean, chinese, accents, lower bool) normalizer {
	var steps sequence
	if clean {
		steps = append(steps, cleanText)
	}
	if chinese {
		steps = append(steps, spaceChinese)
	}
	if accents {
		steps = append(steps, unicodeForm(norm.NFD, norm.NFD), remove(isNonspacingMark))
	}
	if lower {
		steps = append(steps, lowercase)
	}
	return steps.apply
}

// sequence is a list of normalizers that run one after the other.
type sequence []normalizer

func (s sequence) apply(a aligned) aligned {
	for _, step := range s {
		a = step(a)
	}
	return a
}

func cleanText(a aligned) aligned {
	return mapRunes(a, func(r rune) string {
		switch {
		case r == '\t', r == '\n', r == '\r':
			return " "
		case r == 0, r == utf8.RuneError, unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co):
			return ""
		case unicode.IsSpace(r):
			return " "
		}
		return string(r)
	})
}

func spaceChinese(a aligned) aligned {
	if strings.IndexFunc(a.text, isChinese) < 0 {
		return a
	}
	return mapRunes(a, func(r rune) string {
		if isChinese(r) {
			return " " + string(r) + " "
		}
		return string(r)
	})
}

// isChinese reports whether BERT counts a rune as a Chinese character: the blocks of CJK unified ideographs.
func isChinese(r rune) bool {
	switch {
	case r >= 0x4e00 && r <= 0x9fff, r >= 0x3400 && r <= 0x4dbf, r >= 0x20000 && r <= 0x2a6df,
		r >= 0x2a700 && r <= 0x2b73f, r >= 0x2b740 && r <= 0x2b81f, r >= 0x2b920 && r <= 0x2ceaf,
		r >= 0xf900 && r <= 0xfaff, r >= 0x2f800 && r <= 0x2fa1f:
		return true
	}
	return false
}
