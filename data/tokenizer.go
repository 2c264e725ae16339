package data

// Tokenizer maps text to token ids and back. Its methods may be called concurrently.
type Tokenizer interface {
	// Encode returns the ids of text.
	Encode(text string) []int32
	// Decode returns the text of ids; unknown ids are left out.
	Decode(ids []int32) string
	// VocabSize returns one more than the largest id: the number of rows of an embedding.
	VocabSize() int
}

// Bytes is the tokenizer whose ids are the bytes of the text.
type Bytes struct{}

// Encode returns text's bytes.
func (Bytes) Encode(text string) []int32 {
	ids := make([]int32, len(text))
	for i := range len(text) {
		ids[i] = int32(text[i])
	}
	return ids
}

// Decode returns the text of these bytes; an id that is no byte is left out.
func (Bytes) Decode(ids []int32) string {
	text := make([]byte, 0, len(ids))
	for _, id := range ids {
		if id >= 0 && id < 256 {
			text = append(text, byte(id))
		}
	}
	return string(text)
}

// VocabSize returns 256.
func (Bytes) VocabSize() int { return 256 }
