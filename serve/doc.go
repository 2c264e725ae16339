// Package serve is an HTTP server with an OpenAI-compatible API for Galley's models.
//
//	s, err := serve.New(serve.Config{Models: []*serve.Model{m}})
//	err = http.ListenAndServe("127.0.0.1:8000", s)
package serve
