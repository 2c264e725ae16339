package tokenizer

import "unicode/utf8"

// wordPiece matches, from left to right, the longest token at each position; tokens inside a word have a
// prefix. A piece that cannot be covered so is unknown as a whole.
type wordPiece struct {
	vocab   map[string]int32
	unknown int32
	prefix  string
	limit   int // longer pieces, in characters, are unknown
	longest int // bytes of the longest token
}

func newWordPiece(m *modelJSON) *wordPiece {
	w := &wordPiece{vocab: m.vocab, prefix: "##", limit: 100}
	if m.Prefix != nil {
		w.prefix = *m.Prefix
	}
	if m.MaxChars != nil {
		w.limit = *m.MaxChars
	}
	for text := range m.vocab {
		w.longest = max(w.longest, len(text))
	}
	return w
}

func (m *wordPiece) vocabulary() map[string]int32 { return m.vocab }

func (m *wordPiece) tokenize(out []token, piece string, _ *work) []token {
	first := len(out)
	unknown := token{m.unknown, 0, int32(len(piece))}
	if utf8.RuneCountInString(piece) > m.limit {
		return append(out, unknown)
	}
	for at := 0; at < len(piece); {
		id, end := m.longestAt(piece, at)
		if end == at {
			return append(out[:first], unknown)
		}
		out = append(out, token{id, int32(at), int32(end)})
		at = end
	}
	return out
}

// longestAt returns the longest token at byte at of a piece, and its end.
func (m *wordPiece) longestAt(piece string, at int) (int32, int) {
	prefix := ""
	if at > 0 {
		prefix = m.prefix
	}
	end := min(len(piece), at+m.longest-len(prefix))
	for end > at && end < len(piece) && !utf8.RuneStart(piece[end]) {
		end--
	}
	for end > at {
		if id, ok := m.vocab[prefix+piece[at:end]]; ok {
			return id, end
		}
		_, size := utf8.DecodeLastRuneInString(piece[at:end])
		end -= size
	}
	return 0, at
}
