package api

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"sync"
)

// transport answers requests with a handler in the same process, streaming as a network would.
type transport struct{ handler http.Handler }

// RoundTrip returns when the handler has begun its answer. The handler's goroutine ends at the latest when the body of
// the answer is closed, and Close waits for it.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	inner := r.Clone(ctx)
	inner.RequestURI, inner.Host = r.URL.RequestURI(), r.URL.Host
	if inner.Body == nil {
		inner.Body = http.NoBody
	}
	reader, writer := io.Pipe()
	w := &pipeWriter{header: http.Header{}, pipe: writer, begun: make(chan struct{})}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		t.handler.ServeHTTP(w, inner)
		w.WriteHeader(http.StatusOK)
		w.Flush()
		_ = inner.Body.Close()
		_ = writer.Close()
	}()
	<-w.begun // a handler ends when its context does, so this is never long
	return &http.Response{
		Status: http.StatusText(w.code), StatusCode: w.code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.sent, Body: &pipeBody{reader, cancel, ended}, ContentLength: -1, Request: r,
	}, nil
}

// pipeBody ends the handler when it is closed, as a connection that is cut does, and joins its goroutine.
type pipeBody struct {
	*io.PipeReader
	cancel context.CancelFunc
	ended  chan struct{}
}

func (b *pipeBody) Close() error {
	b.cancel()
	err := b.PipeReader.Close()
	<-b.ended
	return err
}

// pipeWriter is the http.ResponseWriter of transport. It buffers until Flush or a few kilobytes, as net/http does.
type pipeWriter struct {
	header http.Header
	pipe   *io.PipeWriter
	buffer bytes.Buffer
	once   sync.Once
	code   int         // set before begun is closed
	sent   http.Header // likewise
	begun  chan struct{}
}

const pipeBuffer = 4 << 10

func (w *pipeWriter) Header() http.Header { return w.header }

func (w *pipeWriter) WriteHeader(code int) {
	w.once.Do(func() {
		w.code, w.sent = code, w.header.Clone()
		close(w.begun)
	})
}

func (w *pipeWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	w.buffer.Write(p)
	if w.buffer.Len() < pipeBuffer {
		return len(p), nil
	}
	return len(p), w.FlushError()
}

// Flush is what http.Flusher wants.
func (w *pipeWriter) Flush() { _ = w.FlushError() }

// FlushError hands over what is buffered; it blocks until the reader took it or closed.
func (w *pipeWriter) FlushError() error {
	w.WriteHeader(http.StatusOK)
	if w.buffer.Len() == 0 {
		return nil
	}
	_, err := w.pipe.Write(w.buffer.Bytes())
	w.buffer.Reset()
	return err
}
