package models

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
)

// reader takes keys from a JSON object. Null counts as omitted. It keeps the first error.
type reader struct {
	raw map[string]json.RawMessage
	err error
}

func newReader(text []byte) (*reader, error) {
	r := &reader{}
	text = pythonNumbers(text)
	if err := json.Unmarshal(text, &r.raw); err != nil {
		return nil, describeJSON(text, err)
	}
	if r.raw == nil {
		return nil, errors.New("got null, want an object")
	}
	return r, nil
}

// pythonNumbers quotes the numbers that JSON lacks and Python prints as bare words, as transformers 5 does.
func pythonNumbers(text []byte) []byte {
	if !bytes.Contains(text, []byte("Infinity")) && !bytes.Contains(text, []byte("NaN")) {
		return text
	}
	words := regexp.MustCompile(`"(?:[^"\\]|\\.)*"|-?Infinity|NaN`)
	return words.ReplaceAllFunc(text, func(word []byte) []byte {
		if word[0] == '"' {
			return word
		}
		return fmt.Appendf(nil, `{"__float__": %q}`, word)
	})
}

// describeJSON adds the line number to a JSON error.
func describeJSON(text []byte, err error) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		before := text[:min(int(syntax.Offset), len(text))]
		return fmt.Errorf("line %d: %w", 1+bytes.Count(before, []byte("\n")), err)
	}
	return errors.New("want an object of keys and values")
}

// take removes a key and returns its value; nil if it is absent or null.
func (r *reader) take(key string) json.RawMessage {
	v := r.raw[key]
	delete(r.raw, key)
	if string(v) == "null" {
		return nil
	}
	return v
}

func (r *reader) has(key string) bool { v, ok := r.raw[key]; return ok && string(v) != "null" }

func (r *reader) fail(key, format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("key %q: %s", key, fmt.Sprintf(format, args...))
	}
}

// get decodes a key's value, or returns def if it is omitted.
func get[T any](r *reader, key, want string, def T) T {
	v := r.take(key)
	if v == nil {
		return def
	}
	var x T
	if err := json.Unmarshal(v, &x); err != nil {
		r.fail(key, "got %s, want %s", short(v), want)
		return def
	}
	return x
}

func (r *reader) float(key string, def float64) float64 { return get(r, key, "a number", def) }
func (r *reader) bool(key string, def bool) bool        { return get(r, key, "true or false", def) }
func (r *reader) string(key, def string) string         { return get(r, key, "a string", def) }

// int reads an integer, which may be written as 64 or 64.0.
func (r *reader) int(key string, def int) int {
	text := short(r.raw[key])
	x := r.float(key, float64(def))
	if x != math.Trunc(x) || math.Abs(x) > 1<<53 {
		r.fail(key, "got %s, want a whole number", text)
		return def
	}
	return int(x)
}

// size returns an int that is required and must be positive.
func (r *reader) size(key string) int {
	if !r.has(key) {
		r.fail(key, "missing")
	}
	return r.count(key, 0)
}

// count returns an int that must be positive if given.
func (r *reader) count(key string, def int) int {
	given := r.has(key)
	n := r.int(key, def)
	if given && n < 1 {
		r.fail(key, "got %d, want at least 1", n)
	}
	return n
}

// natural returns an int that must not be negative.
func (r *reader) natural(key string, def int) int {
	n := r.int(key, def)
	if n < 0 {
		r.fail(key, "got %d, want 0 or more", n)
	}
	return n
}

// probability returns a number in [0, 1).
func (r *reader) probability(key string) float64 { return r.probabilityOr(key, 0) }

// probabilityOr is like probability with another default than 0.
func (r *reader) probabilityOr(key string, otherwise float64) float64 {
	p := r.float(key, otherwise)
	if p < 0 || p >= 1 {
		r.fail(key, "got %v, want a probability below 1", p)
	}
	return p
}

// rest returns the keys that were not taken. A key that has an effect and is not known to be harmless is an
// error, because the model might not be the one that the file describes.
func (r *reader) rest() map[string]json.RawMessage {
	var kept map[string]json.RawMessage
	for _, key := range slices.Sorted(maps.Keys(r.raw)) {
		v := r.raw[key]
		if !harmless(key) {
			if !saysNothing(v) {
				r.fail(key, "not supported: it may change the model: got %s", short(v))
			}
			continue
		}
		if kept == nil {
			kept = map[string]json.RawMessage{}
		}
		var b bytes.Buffer
		if json.Compact(&b, v) == nil {
			kept[key] = b.Bytes()
		}
	}
	return kept
}

// saysNothing reports whether a value enables nothing, such as null and false.
func saysNothing(v json.RawMessage) bool {
	var x any
	if json.Unmarshal(v, &x) != nil {
		return false
	}
	switch x := x.(type) {
	case nil:
		return true
	case bool:
		return !x
	case float64:
		return x == 0
	case string:
		return x == ""
	case []any:
		return len(x) == 0
	case map[string]any:
		return len(x) == 0
	}
	return false
}

// short returns a value's text, truncated to fit a line.
func short(v []byte) string {
	const limit = 40
	s := strings.ToValidUTF8(string(v), "?")
	if len(s) > limit {
		return strings.ToValidUTF8(s[:limit], "") + "…"
	}
	return s
}

// harmless reports whether a key is known not to change what a model computes.
func harmless(key string) bool {
	return strings.HasPrefix(key, "summary_") || strings.HasPrefix(key, "unsloth_") ||
		slices.Contains(strings.Fields(harmlessKeys), key)
}

// harmlessKeys lists tokens, generation settings, labels of other heads and metadata of the program that
// wrote the file.
const harmlessKeys = `
	_attn_implementation _attn_implementation_autoset _attn_implementation_internal _commit_hash
	_experts_implementation _name_or_path _num_labels attn_implementation auto_map bad_words_ids
	begin_suppress_tokens bos_token_id cache_implementation chunk_size_feed_forward
	cls_token_id decoder_start_token_id diversity_penalty do_sample early_stopping encoder_no_repeat_ngram_size
	eos_token_id exponential_decay_length_penalty finetuning_task forced_bos_token_id forced_eos_token_id
	gradient_checkpointing id2label is_decoder is_llama_config label2id length_penalty mask_token_id max_length
	max_sequence_length min_length model_max_length n_ctx no_repeat_ngram_size num_beam_groups num_beams num_labels
	num_return_sequences output_attentions output_hidden_states output_past output_scores pad_token_id prefix
	pretraining_tp problem_type remove_invalid_values reorder_and_upcast_attn repetition_penalty return_dict
	return_dict_in_generate router_aux_loss_coef sep_token_id suppress_tokens task_specific_params temperature
	tf_legacy_loss tie_encoder_decoder tokenizer_class tokenizer_model_max_length tokenizer_padding_side top_k top_p
	torchscript typical_p unk_token_id use_bfloat16 use_cache`
