package etcd

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/galley-ml/galley/internal/elastic/etcd/server"
	"github.com/galley-ml/galley/internal/elastic/store/storetest"
)

// TestMain makes the test binary the server itself, as galley is.
func TestMain(m *testing.M) {
	if len(os.Args) == 8 && os.Args[1] == Command {
		c := server.Config{Name: os.Args[3], Hosts: strings.Split(os.Args[5], ","), Dir: os.Args[7]}
		if err := server.Run(c, os.Stdin); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// TestEtcd: etcd keeps the promises of a store.
func TestEtcd(t *testing.T) {
	name := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	end, err := Start(os.Args[0], name, name, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	urls, own, err := Servers(Embedded+"a@"+name, "a")
	if err != nil || own != "a@"+name {
		t.Fatalf("got %v, %q and %v", urls, own, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	s, err := Wait(ctx, urls, true)
	if err != nil {
		t.Fatal(err)
	}
	storetest.Run(t, s)
}

// TestMistakes: what is wrong with an etcd is said.
func TestMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"localhost:2379": "want URLs", "http://a/b": "path", "embedded=a,b": "want 1, 3 or 5", "embedded=": "want HOST",
		"http://me:pw@a:1": "no name",
	} {
		if _, _, err := Servers(text, "a"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
	old := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"etcdserver":"2.3.8","etcdcluster":"2.3.0"}`)
	}))
	defer old.Close()
	full := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/version" {
			fmt.Fprint(w, `{"etcdserver":"3.7.3","etcdcluster":"3.7.0"}`)
			return
		}
		w.WriteHeader(http.StatusTooManyRequests)
		fmt.Fprint(w, `{"code":8,"message":"etcdserver: mvcc: database space exceeded"}`)
	}))
	defer full.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	if _, err := Open(ctx, []string{old.URL}); err == nil ||
		!strings.Contains(err.Error(), "want 3.4 or later") {
		t.Errorf("another version: got %v", err)
	}
	if _, err := Open(ctx, []string{"http://127.0.0.1:1"}); err == nil ||
		!strings.Contains(err.Error(), "does not answer") {
		t.Errorf("none: got %v", err)
	}
	s, err := Open(ctx, []string{"http://127.0.0.1:1", full.URL})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Commit(ctx, nil, nil); err == nil || !strings.Contains(err.Error(), "it is full") {
		t.Errorf("full: got %v", err)
	}
}

// FuzzServers: no text of a flag makes it panic.
func FuzzServers(f *testing.F) {
	f.Add("embedded=a,b@c:1,d")
	f.Fuzz(func(t *testing.T, text string) { _, _, _ = Servers(text, "a") })
}
