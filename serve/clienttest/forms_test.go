package clienttest

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/shared"
)

func hello() openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{Model: "small", MaxTokens: openai.Int(200), Seed: openai.Int(3),
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Hi")}}
}

// TestForms: a tool that must be called, a JSON schema and log-probabilities, as the client reads them.
func TestForms(t *testing.T) {
	c, ctx := client(t), context.Background()
	count := map[string]any{"type": "object", "properties": map[string]any{
		"n": map[string]any{"type": "integer", "minimum": 1, "maximum": 9}}, "required": []string{"n"},
		"additionalProperties": false}
	var got struct{ N int }

	ask := hello()
	ask.Tools = []openai.ChatCompletionToolUnionParam{
		openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{Name: "count", Parameters: count})}
	ask.ToolChoice = openai.ChatCompletionToolChoiceOptionUnionParam{OfAuto: openai.String("required")}
	answer, err := c.Chat.Completions.New(ctx, ask)
	if err != nil {
		t.Fatal(err)
	}
	calls := answer.Choices[0].Message.ToolCalls
	if len(calls) != 1 || calls[0].Function.Name != "count" || answer.Choices[0].FinishReason != "tool_calls" ||
		json.Unmarshal([]byte(calls[0].Function.Arguments), &got) != nil || got.N < 1 || got.N > 9 {
		t.Errorf("tools: %s", answer.RawJSON())
	}

	ask = hello()
	ask.ResponseFormat = openai.ChatCompletionNewParamsResponseFormatUnion{
		OfJSONSchema: &shared.ResponseFormatJSONSchemaParam{
			JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: "count", Schema: count,
				Strict: openai.Bool(true)}}}
	answer, err = c.Chat.Completions.New(ctx, ask)
	if err != nil {
		t.Fatal(err)
	}
	if json.Unmarshal([]byte(answer.Choices[0].Message.Content), &got) != nil || got.N < 1 || got.N > 9 {
		t.Errorf("schema: %s", answer.RawJSON())
	}

	ask = hello()
	ask.MaxTokens, ask.Logprobs, ask.TopLogprobs = openai.Int(4), openai.Bool(true), openai.Int(3)
	answer, err = c.Chat.Completions.New(ctx, ask)
	if err != nil {
		t.Fatal(err)
	}
	list := answer.Choices[0].Logprobs.Content
	if len(list) != 4 || len(list[0].TopLogprobs) != 3 || list[0].Logprob > 0 ||
		list[0].TopLogprobs[0].Logprob < list[0].TopLogprobs[1].Logprob {
		t.Errorf("log-probabilities: %s", answer.RawJSON())
	}
}

// TestCancel: a stream that its client leaves ends there, and the server goes on.
func TestCancel(t *testing.T) {
	c := client(t)
	ctx, cancel := context.WithCancel(context.Background())
	stream := c.Chat.Completions.NewStreaming(ctx, hello())
	if !stream.Next() {
		t.Fatal(stream.Err())
	}
	cancel()
	for stream.Next() {
	}
	if err := stream.Err(); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	ask := hello()
	ask.MaxTokens = openai.Int(2)
	if _, err := c.Chat.Completions.New(context.Background(), ask); err != nil {
		t.Error(err)
	}
}
