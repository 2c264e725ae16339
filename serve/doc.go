// Package serve answers OpenAI's API over HTTP with models of this module.
//
//	s, err := serve.New(serve.Config{Models: []*serve.Model{m}})
//	err = http.ListenAndServe("127.0.0.1:8000", s)
package serve
