package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/galley-ml/galley/internal/elastic/epoch"
	"github.com/galley-ml/galley/internal/elastic/store"
)

// Prefix returns the prefix of the keys of a job.
func Prefix(job string) string { return "/galley/" + job + "/" }

// Event is something that happened on a host.
type Event struct {
	Time time.Time
	Text string
}

// Progress is the progress of the job, as the first process reports it.
type Progress struct {
	Epoch    int
	Step     int64
	Seconds  float64 // of a typical step
	Loss     string
	Strategy string
	Bytes    int64 // the maximal size of its host's snapshots
	Time     time.Time
}

// Drain asks a host to leave after its current step.
func Drain(ctx context.Context, s store.Store, job, host string) error {
	prefix := Prefix(job)
	entries, err := s.List(ctx, prefix)
	if err != nil {
		return err
	}
	v, err := epoch.Read(entries, prefix)
	if err != nil {
		return err
	}
	if _, ok := v.Members[host]; !ok {
		var list []string
		for name := range v.Members {
			list = append(list, name)
		}
		return fmt.Errorf("job %s has no host %q: it has %s", job, host, strings.Join(list, ", "))
	}
	_, err = s.Commit(ctx, nil, []store.Change{{Key: prefix + epoch.DrainKey(host), Value: []byte("1")}})
	return err
}

// callAgent sends a request to an agent.
func callAgent(ctx context.Context, client *http.Client, c Card, method, path string, query url.Values,
	body io.Reader) (io.ReadCloser, error) {
	u := url.URL{Scheme: "http", Host: c.Address, Path: path, RawQuery: query.Encode()}
	r, err := http.NewRequestWithContext(ctx, method, u.String(), body)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+c.Token)
	answer, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
		answer.Body.Close()
		return nil, fmt.Errorf("%s: %s", answer.Status, strings.TrimSpace(string(text)))
	}
	return answer.Body, nil
}

// Card holds the address and credentials of an agent.
type Card struct{ Job, Host, Address, Token string }

// cardName is the file in which an agent stores its card.
const cardName = "agent.json"

func readCard(path string) (c Card, err error) {
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	return c, err
}

// Cards returns the agents of this machine that store their memory in a directory.
func Cards(dir string) (list []Card) {
	paths, _ := filepath.Glob(filepath.Join(dir, "galley-*", cardName)) // the pattern is valid
	for _, path := range paths {
		if c, err := readCard(path); err == nil {
			list = append(list, c)
		}
	}
	return list
}

// Keys returns all keys of an agent's job.
func (c Card) Keys(ctx context.Context) (list []store.Entry, err error) {
	body, err := callAgent(ctx, http.DefaultClient, c, http.MethodGet, "/keys", nil, nil)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return list, json.NewDecoder(body).Decode(&list)
}

// Drain asks a host of an agent's job to leave.
func (c Card) Drain(ctx context.Context, host string) error {
	body, err := callAgent(
		ctx,
		http.DefaultClient,
		c,
		http.MethodPost,
		"/drain",
		url.Values{"host": {host}},
		nil,
	)
	if err != nil {
		return err
	}
	return body.Close()
}
