// Package data turns text into batches of token ids.
//
// A Tokenizer maps text to ids and back: Bytes needs no file, package tokenizer reads Hugging Face's. A
// Sampler cuts ids into windows and returns them in batches. A batch is a function of the seed and the step
// alone: reading one has no side effect and no position is kept, so a run that resumes, on any number of
// devices, sees the batches it would have seen.
//
//	var tok data.Bytes
//	train, held, err := data.Split(tok.Encode(data.MobyDick()), 0.9)
//	s, err := data.NewSampler(train, data.SamplerConfig{Batch: 8, Seq: 128, Seed: 1})
//	batch := s.Batch(0)  // i32[8,129]: inputs are columns 0 to 127, labels are columns 1 to 128
package data
