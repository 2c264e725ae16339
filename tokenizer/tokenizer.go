package tokenizer

import (
	"sync"
	"unicode/utf8"
)

// Tokenizer maps text to token ids and back, as a tokenizer.json defines it. Its methods may be called
// concurrently.
type Tokenizer struct {
	normalizers sequence
	// Added tokens are searched in the text itself, or in normalized text.
	literal, normal addedTokens
	splitters       []splitter
	byteLetters     bool // the model reads letters in place of bytes
	model           model
	processors      []processor
	decoders        []decoder
	truncation      *truncationJSON
	padding         *paddingJSON

	ids     map[string]int32 // of the vocabulary and of added tokens
	tokens  map[int32]string
	special map[int32]bool
	shown   map[int32]string // the decoded texts of added tokens that are searched in normalized text
	size    int
	// specialTexts are the texts of special tokens: DecodeText leaves tokens out by their text.
	specialTexts map[string]bool

	encoders *sync.Pool
}

// Encoding is the result of encoding a text, or a pair of texts.
type Encoding struct {
	// IDs are the ids of the tokens.
	IDs []int32
	// Offsets are, for each token, the range of characters of the text that it covers, as the first and one past
	// the last; tokens without text have two zeros.
	Offsets [][2]int
	// TypeIDs are 1 for the second text of a pair, unless the file sets others, else 0.
	TypeIDs []int32
	// Special marks the tokens that post-processors have added.
	Special []bool

	// matched is, for each token, the text at which an added token was found, with the white space that it
	// includes, or the text of a Unigram's unknown token; empty for others.
	matched []string
}

// Encode returns the ids of text, with the special tokens that the file's post-processor adds.
func (t *Tokenizer) Encode(text string) []int32 {
	e := t.encoders.Get().(*encoder)
	defer t.encoders.Put(e)
	ids := e.ids(t, text)
	if len(t.processors) == 0 {
		return ids
	}
	return t.process(Encoding{IDs: ids}, nil).IDs
}

// EncodeOffsets returns the tokens of text with their offsets in it.
func (t *Tokenizer) EncodeOffsets(text string) Encoding {
	return t.process(t.encoding(text), nil)
}

// EncodePair returns the tokens of two texts, such as a question and an answer, joined by the file's
// post-processor.
func (t *Tokenizer) EncodePair(first, second string) Encoding {
	b := t.encoding(second).typed(1)
	return t.process(t.encoding(first), &b)
}

// WithoutSpecial returns the same tokenizer without post-processors: it adds no special tokens.
func (t *Tokenizer) WithoutSpecial() *Tokenizer {
	plain := *t
	plain.processors = nil
	return &plain
}

func (t *Tokenizer) encoding(text string) Encoding {
	e := newEncoder()
	e.tracked = true
	e.ids(t, text)
	matched := make([]string, len(e.out))
	for i, text := range e.matched {
		matched[i] = text
	}
	return Encoding{IDs: e.out, Offsets: characters(text, e.places), TypeIDs: make([]int32, len(e.out)),
		Special: make([]bool, len(e.out)), matched: matched}
}

// ID returns the id of a token as the file writes it, such as <|endoftext|>.
func (t *Tokenizer) ID(token string) (int32, bool) {
	id, ok := t.ids[token]
	return id, ok
}

// Token returns the text of a token as the file writes it.
func (t *Tokenizer) Token(id int32) (string, bool) {
	token, ok := t.tokens[id]
	return token, ok
}

// IsSpecial reports whether the file marks a token as special, such as the end-of-text token.
func (t *Tokenizer) IsSpecial(id int32) bool { return t.special[id] }

// VocabSize returns one more than the largest id: the number of rows of an embedding.
func (t *Tokenizer) VocabSize() int { return t.size }

// encoder holds the buffers of one call of Encode, which later calls reuse.
type encoder struct {
	out     []int32
	places  []span         // the tokens' ranges in the original
	tracked bool           // places are needed
	matched map[int]string // texts of added tokens, by their index, if offsets are needed

	words map[string][]token // a cache of pieces: most of a text is few words
	buf   []token
	work  work
}

// Longer pieces, and pieces beyond the cache's size, are tokenized anew each time.
const (
	longestKept = 256
	mostKept    = 1 << 16
)

func newEncoder() *encoder { return &encoder{words: map[string][]token{}} }

// ids returns the token ids of text, without post-processing. The encoder keeps no reference to them.
func (e *encoder) ids(t *Tokenizer, text string) []int32 {
	e.out, e.places, e.matched = nil, nil, nil
	whole := aligned{text: text, first: true}
	if e.tracked {
		whole.from = characterSpans(text)
	}
	t.literal.cut(whole, e.added, func(rest aligned) {
		t.normal.cut(t.normalizers.apply(rest), e.added, func(plain aligned) { e.split(t, plain, t.splitters) })
	})
	return e.out
}

// characterSpans returns, for each byte, the bytes of its character.
func characterSpans(text string) []span {
	from := make([]span, len(text))
	for i := 0; i < len(text); {
		_, size := utf8.DecodeRuneInString(text[i:])
		for j := range size {
			from[i+j] = span{i, i + size}
		}
		i += size
	}
	return from
}

// characters converts spans of bytes to spans of characters.
func characters(text string, spans []span) [][2]int {
	index := make([]int, len(text)+1)
	n := 0
	for i := range text {
		index[i] = n
		n++
	}
	index[len(text)] = n
	out := make([][2]int, len(spans))
	for i, s := range spans {
		out[i] = [2]int{index[s.begin], index[s.end]}
	}
	return out
}

func (e *encoder) added(id int32, at aligned) {
	if e.tracked {
		e.places = append(e.places, at.origin(0, len(at.text)))
		e.match(at.text)
	}
	e.out = append(e.out, id)
}

// match records the text of the next token.
func (e *encoder) match(text string) {
	if e.matched == nil {
		e.matched = map[int]string{}
	}
	e.matched[len(e.out)] = text
}

// split cuts text by each of splitters in turn and encodes the pieces.
func (e *encoder) split(t *Tokenizer, a aligned, splitters []splitter) {
	if a.text == "" {
		return
	}
	if len(splitters) == 0 {
		e.word(t, a)
		return
	}
	splitters[0].split(a, func(piece aligned) { e.split(t, piece, splitters[1:]) })
}

func (e *encoder) word(t *Tokenizer, a aligned) {
	if e.tracked && t.byteLetters {
		a = letters(a)
	}
	tokens, ok := e.words[a.text]
	if !ok {
		tokens = e.newWord(t, a.text)
	}
	u, named := t.model.(*unigram)
	for _, tok := range tokens {
		if named && e.tracked && tok.id == u.unknown {
			e.match(a.text[tok.begin:tok.end])
		}
		e.out = append(e.out, tok.id)
		if e.tracked {
			e.places = append(e.places, a.origin(int(tok.begin), int(tok.end)))
		}
	}
}

func (e *encoder) newWord(t *Tokenizer, word string) []token {
	text := word
	if t.byteLetters && !e.tracked {
		text = toLetters(word)
	}
	e.buf = t.model.tokenize(e.buf[:0], text, &e.work)
	if len(word) > longestKept || len(e.words) >= mostKept {
		return e.buf
	}
	kept := append([]token(nil), e.buf...)
	e.words[string([]byte(word))] = kept // a copy, so that the map does not keep the whole text in memory
	return kept
}
