// Package tokenizer reads Hugging Face's tokenizer.json and maps text to token ids and back, as their own
// library does.
//
// A text takes five steps: added tokens are cut out of it, a normalizer rewrites what is left, pre-tokenizers
// cut that into pieces, a model (BPE, Unigram, WordPiece or WordLevel) makes tokens of each piece, and
// post-processors put special tokens around them. Decoders go back. The one idea: text that is rewritten
// remembers, byte by byte, which part of the original it came from, so that every token knows its place in
// what the user wrote.
//
//	t, err := tokenizer.Load("tokenizer.json")
//	ids := t.Encode("Call me Ishmael.")
//	text := t.Decode(ids)
//
// What a file asks for and this package does not do is an error that names the field.
package tokenizer
