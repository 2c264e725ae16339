// Package tokenizer reads Hugging Face's tokenizer.json and maps text to token ids and back, with the same
// results as Hugging Face's library.
//
// A text passes five steps: added tokens are cut out of it, a normalizer rewrites the rest, pre-tokenizers
// cut that into pieces, a model (BPE, Unigram, WordPiece or WordLevel) makes tokens of each piece, and
// post-processors put special tokens around them. Decoders go back. The one idea: rewritten text keeps, byte
// by byte, which part of the original it came from, so that every token knows its offsets in the user's
// text.
//
//	t, err := tokenizer.Load("tokenizer.json")
//	ids := t.Encode("Call me Ishmael.")
//	text := t.Decode(ids)
//
// A file's setting that this package does not support is an error that names the field.
package tokenizer
