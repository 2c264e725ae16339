// Package clienttest asks a server with OpenAI's own Go client. It is a module of its own, so that nobody
// else needs that client:
//
//	go -C serve/clienttest test .
package clienttest

import (
	"context"
	"errors"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"

	"github.com/galley-ml/galley/data"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/serve"
	"github.com/galley-ml/galley/serve/engine"
)

// client is OpenAI's, of a server of a small random model.
func client(t *testing.T) openai.Client {
	t.Helper()
	config, err := models.ParseConfig([]byte(`{"model_type": "llama", "vocab_size": 256, "hidden_size": 16,
		"intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "initializer_range": 0.4}`))
	if err != nil {
		t.Fatal(err)
	}
	d := cpu.NewDevice(cpu.Config{})
	t.Cleanup(d.Close)
	m, err := models.New(config, nn.Config{Scope: d.NewSession(), Seed: 4})
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(m, engine.Config{Decode: data.Bytes{}.Decode, Context: 512})
	if err != nil {
		t.Fatal(err)
	}
	chat, err := serve.NewChatTemplate("{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}", nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := serve.New(serve.Config{Keys: []string{"secret"}, Models: []*serve.Model{{Name: "small", Engine: e,
		Text: data.Bytes{}, Chat: chat, Created: time.Now(), Defaults: engine.Sampling{Temperature: 1}}}})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(s)
	t.Cleanup(func() {
		web.Close()
		s.Close()
	})
	return openai.NewClient(
		option.WithBaseURL(web.URL+"/v1"),
		option.WithAPIKey("secret"),
		option.WithMaxRetries(0),
	)
}

// TestClient: chats whole and streamed, completions, responses, models, embeddings and errors, as the client
// reads them.
func TestClient(t *testing.T) {
	c, ctx := client(t), context.Background()
	ask := openai.ChatCompletionNewParams{
		Model:       "small",
		Temperature: openai.Float(0),
		MaxTokens:   openai.Int(12),
		Messages:    []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Hi")},
	}
	whole, err := c.Chat.Completions.New(ctx, ask)
	if err != nil {
		t.Fatal(err)
	}
	text := whole.Choices[0].Message.Content
	if whole.Usage.CompletionTokens != 12 || whole.Choices[0].FinishReason != "length" ||
		whole.Model != "small" {
		t.Errorf("got %s", whole.RawJSON())
	}
	stream, all := c.Chat.Completions.NewStreaming(ctx, ask), openai.ChatCompletionAccumulator{}
	for stream.Next() {
		if !all.AddChunk(stream.Current()) {
			t.Errorf("a chunk that does not fit: %s", stream.Current().RawJSON())
		}
	}
	if err := stream.Err(); err != nil || all.Choices[0].Message.Content != text {
		t.Errorf("streamed: %v, %q, want %q", err, all.Choices[0].Message.Content, text)
	}
	plain, err := c.Completions.New(ctx, openai.CompletionNewParams{Model: "small", MaxTokens: openai.Int(3),
		Prompt: openai.CompletionNewParamsPromptUnion{OfString: openai.String("Call me")}})
	if err != nil || len(plain.Choices) != 1 || plain.Usage.CompletionTokens != 3 {
		t.Errorf("completion: %v, %+v", err, plain)
	}
	events := c.Responses.NewStreaming(
		ctx,
		responses.ResponseNewParams{Model: "small", Temperature: openai.Float(0),
			MaxOutputTokens: openai.Int(12),
			Input:           responses.ResponseNewParamsInputUnion{OfString: openai.String("Hi")}},
	)
	got := ""
	for events.Next() {
		if e := events.Current(); e.Type == "response.output_text.delta" {
			got += e.Delta
		} else if e.Type == "response.incomplete" && e.Response.OutputText() != text {
			t.Errorf("response: %q, want %q", e.Response.OutputText(), text)
		}
	}
	if err := events.Err(); err != nil || got != text {
		t.Errorf("response: %v, %q, want %q", err, got, text)
	}
	list, err := c.Models.List(ctx)
	if err != nil || len(list.Data) != 1 || list.Data[0].ID != "small" {
		t.Errorf("models: %v, %+v", err, list)
	}
	vectors, err := c.Embeddings.New(ctx, openai.EmbeddingNewParams{Model: "small",
		Input: openai.EmbeddingNewParamsInputUnion{OfString: openai.String("a")}})
	if err != nil || len(vectors.Data) != 1 || len(vectors.Data[0].Embedding) != 16 {
		t.Errorf("embeddings: %v, %+v", err, vectors)
	}
	ask.Model = "other"
	var fault *openai.Error
	if _, err := c.Chat.Completions.New(ctx, ask); !errors.As(err, &fault) || fault.StatusCode != 404 ||
		fault.Code != "model_not_found" {
		t.Errorf("a model that is not there: %v", err)
	}
}
