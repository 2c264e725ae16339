package data

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Message is one message of a conversation.
type Message struct {
	// Role is the speaker: system, user, assistant or tool.
	Role    string `json:"role"`
	Content string `json:"content"`
}

// assistant is the role whose messages are learned as answers.
const assistant = "assistant"

// ChatTemplate renders conversations in the format that a model was trained on.
type ChatTemplate interface {
	// Render returns the text of messages; with prompt it ends where an answer begins.
	Render(messages []Message, prompt bool) (string, error)
}

// ChatML is the template of ChatML: <|im_start|>role, a line, the message, <|im_end|>, a line.
type ChatML struct{}

// Render returns the text of messages.
func (ChatML) Render(messages []Message, prompt bool) (string, error) {
	var b strings.Builder
	for _, m := range messages {
		fmt.Fprintf(&b, "<|im_start|>%s\n%s<|im_end|>\n", m.Role, m.Content)
	}
	if prompt {
		b.WriteString("<|im_start|>" + assistant + "\n")
	}
	return b.String(), nil
}

// turn is one part of a chat file's line: messages, or plain text.
type turn struct {
	text     string
	messages []Message // nil for a text
}

// UnmarshalJSON reads a text, messages, or messages in ShareGPT's format.
func (t *turn) UnmarshalJSON(raw []byte) error {
	if json.Unmarshal(raw, &t.text) == nil {
		return nil
	}
	var list []struct {
		Role, Content, From, Value *string
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return errors.New("want a text, or a list of messages with role and content")
	}
	t.messages = []Message{}
	for i, m := range list {
		role, content := m.Role, m.Content
		if role == nil && m.From != nil {
			role, content = m.From, m.Value
			*role = shareRole(*role)
		}
		if role == nil || content == nil {
			return fmt.Errorf("message %d: want a role and a content", i+1)
		}
		t.messages = append(t.messages, Message{*role, *content})
	}
	return nil
}

// shareRole converts a role of ShareGPT to its usual name.
func shareRole(from string) string {
	switch from {
	case "human":
		return "user"
	case "gpt":
		return assistant
	}
	return from
}

// marked is a text in which answers are marked, each as a range of bytes.
type marked struct {
	text    string
	answers [][2]int
}

// conversation renders messages and marks every answer of the assistant.
func conversation(t ChatTemplate, messages []Message) (m marked, err error) {
	for i, message := range messages {
		if message.Role != assistant {
			continue
		}
		before, err := t.Render(messages[:i], true)
		if err != nil {
			return m, err
		}
		with, err := t.Render(messages[:i+1], false)
		if err != nil {
			return m, err
		}
		if !strings.HasPrefix(with, before) || !strings.HasPrefix(before, m.text) {
			return m, fmt.Errorf("message %d: the chat template writes what comes before an answer in another way "+
				"when the answer is there: it cannot be told apart", i+1)
		}
		m.text = with
		m.answers = append(m.answers, [2]int{len(before), len(with)})
	}
	if len(m.answers) == 0 {
		return m, errors.New("it has no message of the assistant to learn from")
	}
	return m, nil
}

// answered renders a prompt and its answer, and marks only the answer. end follows plain texts.
func answered(t ChatTemplate, prompt, answer turn, end string) (m marked, err error) {
	if prompt.messages == nil && answer.messages == nil {
		text := prompt.text + answer.text + end
		return marked{text, [][2]int{{len(prompt.text), len(text)}}}, nil
	}
	if prompt.messages == nil && prompt.text != "" {
		prompt.messages = []Message{{"user", prompt.text}}
	}
	if answer.messages == nil {
		answer.messages = []Message{{assistant, answer.text}}
	}
	if m, err = conversation(t, append(prompt.messages, answer.messages...)); err != nil {
		return m, err
	}
	first := 0 // the first answer that is not in the prompt
	for _, x := range prompt.messages {
		if x.Role == assistant {
			first++
		}
	}
	if first >= len(m.answers) {
		return m, errors.New("the answer has no message of the assistant")
	}
	m.answers = m.answers[first:]
	return m, nil
}
