package tokenizer

import (
	"fmt"
	"unicode/utf8"
)

// bpe is byte-pair encoding: a piece starts as one symbol for each of its characters, and pairs of neighbours
// merge in the order of the merge table until no pair is in it.
type bpe struct {
	vocab  map[string]int32
	merges map[pair]merge

	unknown   int32 // -1 for none: then unknown characters are dropped
	fuse      bool  // consecutive unknown characters are one token
	fallback  bool  // a character that is not in the vocabulary becomes byte tokens
	wholeWord bool  // a piece that is a token is not merged from symbols: the file's ignore_merges
	prefix    string
	suffix    string
	ascii     [128]int32 // ids of single characters, for speed; -1 for none
}

func newBPE(m *modelJSON) (*bpe, error) {
	b := &bpe{vocab: m.vocab, unknown: -1, fuse: m.FuseUnk, fallback: m.ByteFallback, wholeWord: m.IgnoreMerges}
	if m.Prefix != nil {
		b.prefix = *m.Prefix
	}
	if m.Suffix != nil {
		b.suffix = *m.Suffix
	}
	if m.UnkToken != nil {
		if id, ok := m.vocab[*m.UnkToken]; ok {
			b.unknown = id
		}
	}
	for c := range b.ascii {
		b.ascii[c] = -1
		if id, ok := m.vocab[string(rune(c))]; ok {
			b.ascii[c] = id
		}
	}
	return b, b.setMerges(m.Merges)
}

func (m *bpe) setMerges(merges []mergeJSON) error {
	m.merges = make(map[pair]merge, len(merges))
	for i, j := range merges {
		joined := j.left + j.right
		if len(j.right) >= len(m.prefix) {
			joined = j.left + j.right[len(m.prefix):]
		}
		left, okLeft := m.vocab[j.left]
		right, okRight := m.vocab[j.right]
		both, okBoth := m.vocab[joined]
		if !okLeft || !okRight || !okBoth {
			return fmt.Errorf("model: merges: %d: %q and %q: they or their join are not in the vocab", i, j.left,
				j.right)
		}
		m.merges[pair{left, right}] = merge{rank: int32(i), id: both}
	}
	return nil
}

func (m *bpe) vocabulary() map[string]int32 { return m.vocab }

func (m *bpe) tokenize(out []token, piece string, w *work) []token {
	if m.wholeWord {
		if id, ok := m.vocab[piece]; ok {
			return append(out, token{id, 0, int32(len(piece))})
		}
	}
	w.merger.reset()
	unknown := int32(0) // bytes of unknown characters that will be one token
	for i, r := range piece {
		size := int32(utf8.RuneLen(r))
		if r == utf8.RuneError {
			_, n := utf8.DecodeRuneInString(piece[i:])
			size = int32(n)
		}
		id, ok := m.symbol(piece, i, int(size))
		switch {
		case ok:
			m.flush(w, &unknown)
			w.merger.add(id, size)
		case m.fallback && m.addBytes(w, m.text(piece, i, int(size)), size):
		case m.unknown < 0:
		default:
			if !m.fuse {
				m.flush(w, &unknown)
			}
			unknown += size
		}
	}
	m.flush(w, &unknown)
	return w.merger.merge(m.merges, out)
}

// symbol returns the id of the character at byte at of a piece.
func (m *bpe) symbol(piece string, at, size int) (int32, bool) {
	if c := piece[at]; m.prefix == "" && m.suffix == "" && c < utf8.RuneSelf {
		return m.ascii[c], m.ascii[c] >= 0
	}
	id, ok := m.vocab[m.text(piece, at, size)]
	return id, ok
}

// text returns the character at byte at of a piece, with the vocabulary's prefix or suffix for its position.
func (m *bpe) text(piece string, at, size int) string {
	text := piece[at : at+size]
	if at > 0 {
		text = m.prefix + text
	}
	if at+size == len(piece) {
		text += m.suffix
	}
	return text
}

// flush adds the pending unknown characters as one token.
func (m *bpe) flush(w *work, size *int32) {
	if *size > 0 {
		w.merger.add(m.unknown, *size)
		*size = 0
	}
}

// addBytes adds a character's byte tokens; size is its length in the piece, without a prefix or suffix.
func (m *bpe) addBytes(w *work, text string, size int32) bool {
	ids := byteTokens(m.vocab, text)
	for i, id := range ids {
		w.merger.add(id, min(1, max(0, size-int32(i))))
	}
	return ids != nil
}

// byteTokens returns the tokens of text's bytes, or nil if the vocabulary lacks one.
func byteTokens(vocab map[string]int32, text string) []int32 {
	ids := make([]int32, 0, utf8.UTFMax)
	for i := range len(text) {
		id, ok := vocab[fallbackToken(text[i])]
		if !ok {
			return nil
		}
		ids = append(ids, id)
	}
	return ids
}

// fallbackToken returns the token of a byte, such as <0x0A>; fallbackByte is its inverse.
func fallbackToken(c byte) string {
	const hex = "0123456789ABCDEF"
	return "<0x" + string([]byte{hex[c>>4], hex[c&15]}) + ">"
}

func fallbackByte(token string) (byte, bool) {
	if len(token) != 6 || token[:3] != "<0x" || token[5] != '>' {
		return 0, false
	}
	hi, okHi := hexDigit(token[3])
	lo, okLo := hexDigit(token[4])
	return hi<<4 | lo, okHi && okLo
}

func hexDigit(c byte) (byte, bool) {
	switch {
	case c >= '0' && c <= '9':
		return c - '0', true
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10, true
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10, true
	}
	return 0, false
}
