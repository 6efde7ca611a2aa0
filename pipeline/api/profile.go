package api

import (
	"errors"
	"net"
	"net/http"
	"net/http/pprof"
)

// profiles serves what the Go runtime tells about itself, to this machine alone whatever the listener is open to: a
// profile shows names of functions and takes time.
func profiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.RemoteAddr)
		if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
			fail(w, http.StatusForbidden, errors.New("profiles are given to this machine only"))
			return
		}
		mux.ServeHTTP(w, r)
	})
}
