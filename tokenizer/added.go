package tokenizer

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// addedToken is a token that is searched in the text itself, before the model runs.
type addedToken struct {
	ID         int32  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"` // only if no letter or digit is next to it
	LStrip     bool   `json:"lstrip"`      // includes the white space before it
	RStrip     bool   `json:"rstrip"`      // includes the white space after it
	Normalized bool   `json:"normalized"`  // is searched in normalized text
	Special    bool   `json:"special"`
}

// addedTokens maps a first byte to the tokens that begin with it, longest first.
type addedTokens map[byte][]addedToken

func newAddedTokens(tokens []addedToken) addedTokens {
	byFirst := addedTokens{}
	for _, t := range tokens {
		if t.Content != "" {
			byFirst[t.Content[0]] = append(byFirst[t.Content[0]], t)
		}
	}
	for _, list := range byFirst {
		slices.SortStableFunc(list, func(a, b addedToken) int { return len(b.Content) - len(a.Content) })
	}
	return byFirst
}

// cut calls token for each added token in text and plain for the text between them. Of tokens that overlap,
// the first wins, and of those at one place the longest.
func (a addedTokens) cut(text aligned, token func(id int32, at aligned), plain func(aligned)) {
	done := 0
	if len(a) > 0 {
		done = a.cutTokens(text, token, plain)
	}
	if done < len(text.text) {
		plain(text.slice(done, len(text.text)))
	}
}

// cutTokens is cut without the text after the last token; it returns where that token ends.
func (a addedTokens) cutTokens(all aligned, token func(id int32, at aligned),
	plain func(aligned)) (done int) {
	text := all.text
	for i := 0; i < len(text); {
		t, ok := a.at(text[i:])
		if !ok {
			i++
			continue
		}
		begin, end := i, i+len(t.Content)
		i = end
		if t.SingleWord && touchesWord(text[:begin], text[end:]) {
			continue
		}
		if t.LStrip {
			begin = max(done, len(strings.TrimRightFunc(text[:begin], unicode.IsSpace)))
		}
		if t.RStrip {
			end = len(text) - len(strings.TrimLeftFunc(text[end:], unicode.IsSpace))
		}
		if begin > done {
			plain(all.slice(done, begin))
		}
		token(t.ID, all.slice(begin, end))
		done = end
	}
	return done
}

func (a addedTokens) at(text string) (addedToken, bool) {
	for _, t := range a[text[0]] {
		if strings.HasPrefix(text, t.Content) {
			return t, true
		}
	}
	return addedToken{}, false
}

func touchesWord(before, after string) bool {
	last, _ := utf8.DecodeLastRuneInString(before)
	first, _ := utf8.DecodeRuneInString(after)
	return before != "" && isWord(last) || after != "" && isWord(first)
}

// isWord reports whether a rune matches \w of Unicode regular expressions.
func isWord(r rune) bool {
	return unicode.In(r, unicode.L, unicode.M, unicode.Nd, unicode.Nl, unicode.Pc, unicode.Other_Alphabetic,
		unicode.Join_Control)
}
