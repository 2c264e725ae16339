// Package engine generates text for many requests at once.
//
// Keys and values are in pages of 16 tokens, which sequences share where they begin alike. Each step takes a
// bounded number of tokens: one of every sequence that is being continued, and chunks of prompts that are yet
// to be read. Requests begin when there are pages for their prompt; where pages run out, the request that
// came last gives its own back and is computed again later. None of this changes a bit of what a request
// gets: it is what it would get alone.
//
//	e, err := engine.New(model, engine.Config{})
//	for token, err := range e.Generate(ctx, engine.Request{Prompt: ids, Tokens: 100}) {
//		fmt.Print(token.Text)
//	}
package engine
