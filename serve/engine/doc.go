// Package engine generates text for many requests at once.
//
// Keys and values are in pages of 16 tokens, which sequences with equal prefixes share. Each step computes a
// bounded number of tokens: one of every decoding sequence, and chunks of prompts (chunked prefill). A
// request starts when there are pages for its prompt; if pages run out, the latest request is preempted: its
// pages are freed and it is computed again later. None of this changes a bit of a request's output: it is the
// same as if the request ran alone.
//
//	e, err := engine.New(model, engine.Config{})
//	for token, err := range e.Generate(ctx, engine.Request{Prompt: ids, Tokens: 100}) {
//		fmt.Print(token.Text)
//	}
package engine
