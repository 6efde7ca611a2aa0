package api

import (
	"embed"
	"net/http"
)

// web is the whole page. It loads nothing but its own files and the API.
//
//go:embed web
var web embed.FS

// policy lets the page load what this server serves, and nothing else.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// guarded sets what a browser has to know about everything served.
func guarded(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
}

// page answers with one file of the page.
func (s *server) page(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		guarded(w)
		http.ServeFileFS(w, r, web, "web/"+name)
	}
}

// asset answers with a file that a page loads.
func (s *server) asset(w http.ResponseWriter, r *http.Request) {
	guarded(w)
	http.ServeFileFS(w, r, web, "web/"+r.PathValue("file"))
}
