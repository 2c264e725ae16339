package serve

import (
	_ "embed"
	"net/http"
)

// chatPage is the HTML of the chat page, which loads nothing from other servers.
//
//go:embed page.html
var chatPage []byte

func (s *Server) page(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy",
		"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "+
			"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	w.Write(chatPage)
}
