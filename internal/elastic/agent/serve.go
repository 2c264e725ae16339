//go:build linux || darwin

package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/galley-ml/galley/internal/checkpoint"
	"github.com/galley-ml/galley/internal/elastic/epoch"
)

// handler serves the other agents, and callers that request the state of the job, if they know its secret.
func (m *memory) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /inventory", m.serveInventory)
	mux.HandleFunc("GET /file", m.serveFile)
	mux.HandleFunc("PUT /copy", m.takeCopy)
	mux.HandleFunc("GET /keys", m.serveKeys)
	mux.HandleFunc("POST /drain", m.takeDrain)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if m.token == "" || r.Header.Get("Authorization") != "Bearer "+m.token {
			http.Error(w, "another job's secret", http.StatusForbidden)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func (m *memory) serveInventory(w http.ResponseWriter, _ *http.Request) {
	_ = json.NewEncoder(w).Encode(m.stock()) // the caller sees what is missing
}

// below returns the path below the root that a request names.
func (m *memory) below(r *http.Request) (string, error) {
	path := r.URL.Query().Get("path")
	if !filepath.IsLocal(path) {
		return "", fmt.Errorf("path %q: want one below the agent's directory", path)
	}
	return filepath.Join(m.root, path), nil
}

func (m *memory) serveFile(w http.ResponseWriter, r *http.Request) {
	path, err := m.below(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	http.ServeFile(w, r, path)
}

// takeCopy receives a file of another host's snapshot: the manifest comes last, and the previous one is
// removed first.
func (m *memory) takeCopy(w http.ResponseWriter, r *http.Request) {
	path, err := m.below(r)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err == nil {
		err = keepFile(path, r.Body)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInsufficientStorage)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.news = true
}

// keepFile writes a file atomically.
func keepFile(path string, from io.Reader) error {
	f, err := os.OpenFile(path+".tmp", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(path+".tmp"))
	}
	return os.Rename(path+".tmp", path)
}

// serveKeys returns all keys of the job.
func (m *memory) serveKeys(w http.ResponseWriter, r *http.Request) {
	entries, err := m.a.Store.List(r.Context(), m.a.prefix)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	_ = json.NewEncoder(w).Encode(entries)
}

func (m *memory) takeDrain(w http.ResponseWriter, r *http.Request) {
	if err := Drain(r.Context(), m.a.Store, m.a.Job, r.URL.Query().Get("host")); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
}

// get sends a request to another agent.
func (m *memory) get(ctx context.Context, address, path string, query url.Values) (io.ReadCloser, error) {
	return m.call(ctx, http.MethodGet, address, path, query, nil)
}

func (m *memory) call(ctx context.Context, method, address, path string, query url.Values,
	body io.Reader) (io.ReadCloser, error) {
	return callAgent(ctx, m.client, Card{Address: address, Token: m.token}, method, path, query, body)
}

// fetch gets a file from another host.
func (m *memory) fetch(ctx context.Context, h epoch.Place, from, to string) error {
	body, err := m.get(ctx, h.Address, "/file", url.Values{"path": {from}})
	if err != nil {
		return fmt.Errorf("host %s: %w", h.Host, err)
	}
	defer body.Close()
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	return keepFile(to, body)
}

// copyTo sends another host a copy of the boxes of a snapshot that only this host holds.
func (m *memory) copyTo(ctx context.Context, h epoch.Place, dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
	if err != nil {
		return err
	}
	p, err := checkpoint.ParsePartial(text)
	if err != nil {
		return err
	}
	below, err := filepath.Rel(filepath.Join(m.root, "own"), dir)
	if err != nil {
		return err
	}
	to := filepath.Join("copies", m.a.Host, below)
	if err := m.give(ctx, h, filepath.Join(to, "manifest.json"), strings.NewReader("")); err != nil {
		return err // the previous one is no longer complete
	}
	f, err := os.Open(filepath.Join(dir, p.SoleFile()))
	if err != nil {
		return err
	}
	defer f.Close()
	if err := m.give(ctx, h, filepath.Join(to, p.SoleFile()), f); err != nil {
		return err
	}
	manifest, err := p.WithoutShared().Text()
	if err != nil {
		return err
	}
	return m.give(ctx, h, filepath.Join(to, "manifest.json"), strings.NewReader(string(manifest)))
}

// give puts a file on another host.
func (m *memory) give(ctx context.Context, h epoch.Place, path string, body io.Reader) error {
	answer, err := m.call(ctx, http.MethodPut, h.Address, "/copy", url.Values{"path": {path}}, body)
	if err != nil {
		return err
	}
	return answer.Close()
}
