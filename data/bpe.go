package data

import (
	"strings"
	"unicode/utf8"
)

// BPE is a byte-level byte-pair encoding, as GPT-2, Llama 3 and Qwen have. Text is cut at special tokens, then into
// pieces of about a word; a piece starts as one symbol for each of its bytes, and pairs of neighbours merge in the
// order of the merge table until no pair is in it.
type BPE struct {
	vocab  map[string]int32 // by token as the file writes it: see byteLetters
	tokens map[int32]string
	size   int
	merges map[pair]merge

	starts    [256]start // a byte's symbols before any merge
	fuseUnk   bool
	wholeWord bool // a piece that is a token takes no merges: the file's ignore_merges
	fallback  bool

	normalize          func(string) string // nil for none
	literal, normal    addedTokens         // looked for before and after normalizing
	splits             []split
	prefixes, suffixes []int32 // around every text
}

// start is what a byte is before any merge.
type start struct {
	ids     []int32
	unknown bool // ids is the unknown token
}

// Encode is the ids of text, with the tokens that the file's template puts around it. A byte that the vocabulary
// does not have is left out. Text that is not UTF-8 keeps its bytes.
func (b *BPE) Encode(text string) []int32 {
	e := encoder{b: b, words: map[string][]int32{}}
	e.ids = append(e.ids, b.prefixes...)
	b.literal.cut(text, e.token, func(rest string) {
		if b.normalize != nil {
			rest = b.normalize(rest)
		}
		b.normal.cut(rest, e.token, func(plain string) { e.split(plain, b.splits) })
	})
	return append(e.ids, b.suffixes...)
}

// ID is the id of a token as the file writes it, such as <|endoftext|>.
func (b *BPE) ID(token string) (int32, bool) {
	id, ok := b.vocab[token]
	return id, ok
}

// VocabSize is one more than the largest id.
func (b *BPE) VocabSize() int { return b.size }

// encoder is one call of Encode.
type encoder struct {
	b      *BPE
	ids    []int32
	words  map[string][]int32 // pieces already merged: most of a text is few words
	merger merger
}

func (e *encoder) token(id int32) { e.ids = append(e.ids, id) }

// split cuts text by each of splits in turn and encodes the pieces.
func (e *encoder) split(text string, splits []split) {
	if text == "" {
		return
	}
	if len(splits) == 0 {
		e.word(text)
		return
	}
	splits[0].cut(text, func(piece string) { e.split(piece, splits[1:]) })
}

func (e *encoder) word(word string) {
	ids, ok := e.words[word]
	if !ok {
		at := len(e.ids)
		e.newWord(word)
		e.words[word] = e.ids[at:len(e.ids):len(e.ids)]
		return
	}
	e.ids = append(e.ids, ids...)
}

func (e *encoder) newWord(word string) {
	if e.b.wholeWord {
		if id, ok := e.b.vocab[toLetters(word)]; ok {
			e.token(id)
			return
		}
	}
	symbols := e.merger.ids[:0]
	unknown := false
	for i := range len(word) {
		s := e.b.starts[word[i]]
		if !(s.unknown && unknown && e.b.fuseUnk) {
			symbols = append(symbols, s.ids...)
		}
		unknown = s.unknown
	}
	e.merger.ids = symbols
	e.ids = e.merger.merge(e.b.merges, e.ids)
}

// Decode is the text of ids, special tokens included. The bytes of an incomplete character stay as they are, so
// that texts of consecutive ids join to the text of all.
func (b *BPE) Decode(ids []int32) string {
	var text, run []byte
	for _, id := range ids {
		token, ok := b.tokens[id]
		if !ok {
			continue
		}
		if c, ok := fallbackByte(token); ok && b.fallback {
			run = append(run, c)
			continue
		}
		text = appendBytes(text, string(run))
		run = run[:0]
		text = appendBytes(text, token)
	}
	return string(appendBytes(text, string(run)))
}

// byteLetters writes each byte as a letter that can be seen, which is how tokenizer.json's tokens are written:
// printable Latin-1 is itself, and the rest are the characters from U+0100 on (GPT-2's bytes_to_unicode).
var byteLetters, letterBytes = func() (letters [256]rune, bytes map[rune]byte) {
	bytes = map[rune]byte{}
	next := rune(256)
	for c := range rune(256) {
		letters[c] = c
		if c <= ' ' || c >= 0x7f && c <= 0xa0 || c == 0xad {
			letters[c] = next
			next++
		}
		bytes[letters[c]] = byte(c)
	}
	return letters, bytes
}()

func toLetters(word string) string {
	var b strings.Builder
	for i := range len(word) {
		b.WriteRune(byteLetters[word[i]])
	}
	return b.String()
}

// appendBytes appends the bytes that token's letters stand for, or token itself where one of them is no such letter.
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

// fallbackToken is the token of a byte that has no letter in the vocabulary; fallbackByte is its inverse.
func fallbackToken(c byte) string {
	const hex = "0123456789ABCDEF"
	return "<0x" + string([]byte{hex[c>>4], hex[c&15]}) + ">"
}

func fallbackByte(token string) (byte, bool) {
	if len(token) != 6 || !strings.HasPrefix(token, "<0x") || token[5] != '>' {
		return 0, false
	}
	hi, lo := strings.IndexByte("0123456789ABCDEF", token[3]), strings.IndexByte("0123456789ABCDEF", token[4])
	return byte(hi<<4 | lo), hi >= 0 && lo >= 0
}

// startOf is what byte c is before any merge.
func (b *BPE) startOf(c byte, unk string) start {
	letter := string(byteLetters[c])
	if id, ok := b.vocab[letter]; ok {
		return start{ids: []int32{id}}
	}
	if b.fallback {
		ids := make([]int32, 0, utf8.UTFMax)
		for i := range len(letter) {
			if id, ok := b.vocab[fallbackToken(letter[i])]; ok {
				ids = append(ids, id)
			}
		}
		if len(ids) == len(letter) {
			return start{ids: ids}
		}
	}
	if id, ok := b.vocab[unk]; ok {
		return start{ids: []int32{id}, unknown: true}
	}
	return start{}
}
