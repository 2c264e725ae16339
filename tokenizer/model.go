package tokenizer

// model makes tokens of the pieces of a text.
type model interface {
	// tokenize appends the tokens of one piece, which is not empty.
	tokenize(out []token, piece string, w *work) []token
	vocabulary() map[string]int32
}

// token is an id and its range of bytes in a piece.
type token struct{ id, begin, end int32 }

// work is memory that a model reuses from piece to piece.
type work struct {
	merger merger
	best   []bestPath
}

// wordLevel makes one token of every piece.
type wordLevel struct {
	vocab   map[string]int32
	unknown int32 // -1: a piece that is not in the vocabulary is dropped
}

func (m *wordLevel) vocabulary() map[string]int32 { return m.vocab }

func (m *wordLevel) tokenize(out []token, piece string, _ *work) []token {
	id, ok := m.vocab[piece]
	if !ok {
		id = m.unknown
	}
	if id < 0 {
		return out
	}
	return append(out, token{id, 0, int32(len(piece))})
}
