package tokenizer

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// decoder is a step from tokens back to text; the results of the last step are joined.
type decoder func(tokens []string) []string

// Decode returns the text of ids, special tokens included. An unknown id is left out. The bytes of an
// incomplete character stay as they are, so that, for byte-level tokens, texts of consecutive ids concatenate
// to the text of all.
func (t *Tokenizer) Decode(ids []int32) string {
	return t.decode(ids, func(string) bool { return true })
}

// DecodeText returns the text of ids without special tokens.
func (t *Tokenizer) DecodeText(ids []int32) string {
	return t.decode(ids, func(token string) bool { return !t.specialTexts[token] })
}

func (t *Tokenizer) decode(ids []int32, keep func(string) bool) string {
	tokens := make([]string, 0, len(ids))
	for _, id := range ids {
		token, ok := t.shown[id]
		if !ok {
			token, ok = t.tokens[id]
		}
		if ok && keep(token) {
			tokens = append(tokens, token)
		}
	}
	if t.decoders == nil {
		return strings.Join(tokens, " ")
	}
	for _, d := range t.decoders {
		tokens = d(tokens)
	}
	return strings.Join(tokens, "")
}

// eachToken returns a decoder that changes every token by itself.
func eachToken(f func(i int, token string) string) decoder {
	return func(tokens []string) []string {
		for i, token := range tokens {
			tokens[i] = f(i, token)
		}
		return tokens
	}
}

func decodeLetters(tokens []string) []string {
	var text []byte
	for _, token := range tokens {
		text = appendBytes(text, token)
	}
	return []string{string(text)}
}

// decodeFallback joins the bytes of byte tokens such as <0x0A>.
func decodeFallback(tokens []string) []string {
	var out []string
	var run []byte
	for _, token := range tokens {
		if c, ok := fallbackByte(token); ok {
			run = append(run, c)
			continue
		}
		if len(run) > 0 {
			out = append(out, string(run))
			run = run[:0]
		}
		out = append(out, token)
	}
	if len(run) > 0 {
		out = append(out, string(run))
	}
	return out
}

func fuse(tokens []string) []string { return []string{strings.Join(tokens, "")} }

// decodeStrip removes up to start and stop copies of content from the ends of each token.
func decodeStrip(content string, start, stop int) decoder {
	return eachToken(func(_ int, token string) string {
		for range start {
			token = strings.TrimPrefix(token, content)
		}
		for range stop {
			token = strings.TrimSuffix(token, content)
		}
		return token
	})
}

func decodeMetaspace(mark string, when prependScheme) decoder {
	return eachToken(func(i int, token string) string {
		if i == 0 && when != prependNever {
			return strings.ReplaceAll(token, mark, "")
		}
		return strings.ReplaceAll(token, mark, " ")
	})
}

// cleanup removes the spaces that tokenization puts before punctuation and contractions in English texts.
var cleanup = func(token string) string {
	for _, r := range [][2]string{{" .", "."}, {" ?", "?"}, {" !", "!"}, {" ,", ","}, {" ' ", "'"},
		{" n't", "n't"},
		{" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}} {
		token = strings.ReplaceAll(token, r[0], r[1])
	}
	return token
}

func decodeWordPiece(prefix string, clean bool) decoder {
	return eachToken(func(i int, token string) string {
		if i > 0 {
			if rest, ok := strings.CutPrefix(token, prefix); ok {
				token = rest
			} else {
				token = " " + token
			}
		}
		if clean {
			token = cleanup(token)
		}
		return token
	})
}

func decodeBPE(suffix string) decoder {
	return func(tokens []string) []string {
		return eachToken(func(i int, token string) string {
			if i == len(tokens)-1 {
				return strings.ReplaceAll(token, suffix, "")
			}
			return strings.ReplaceAll(token, suffix, " ")
		})(tokens)
	}
}

// decodeCTC drops repeated tokens and padding, as speech models need it.
func decodeCTC(pad, delimiter string, clean bool) decoder {
	return func(tokens []string) []string {
		var out []string
		for i, token := range tokens {
			if i > 0 && token == tokens[i-1] {
				continue
			}
			token = strings.ReplaceAll(token, pad, "")
			if clean {
				token = strings.ReplaceAll(cleanup(token), delimiter, " ")
			}
			if token != "" {
				out = append(out, token)
			}
		}
		return out
	}
}

// decoders returns the steps of a decoder.
func (c *component) decoders() ([]decoder, error) {
	if c == nil {
		return nil, nil
	}
	if c.Type == "Sequence" {
		all := []decoder{}
		for i := range c.Decoders {
			d, err := c.Decoders[i].decoders()
			if err != nil {
				return nil, err
			}
			all = append(all, d...)
		}
		return all, nil
	}
	d, err := c.decoder()
	return []decoder{d}, err
}

func (c *component) decoder() (decoder, error) {
	switch c.Type {
	case "ByteLevel":
		return decodeLetters, nil
	case "ByteFallback":
		return decodeFallback, nil
	case "Fuse":
		return fuse, nil
	case "Strip":
		if utf8.RuneCountInString(c.Content) != 1 || c.Start < 0 || c.Stop < 0 {
			return nil, fmt.Errorf("decoder: Strip: got %q, %d, %d: want one character and numbers from 0", c.Content,
				c.Start, c.Stop)
		}
		return decodeStrip(c.Content, c.Start, c.Stop), nil
	case "Replace":
		return c.decodeReplace()
	case "Metaspace":
		m, err := c.metaspace()
		return decodeMetaspace(m.mark, m.when), err
	case "WordPiece":
		return decodeWordPiece(or(c.Prefix, "##"), orTrue(c.Cleanup)), nil
	case "BPEDecoder":
		return decodeBPE(or(c.Suffix, "</w>")), nil
	case "CTC":
		return decodeCTC(or(c.PadToken, "<pad>"), or(c.WordDelimiter, "|"), orTrue(c.Cleanup)), nil
	}
	return nil, fmt.Errorf("decoder: type %q is not supported: want ByteLevel, ByteFallback, Fuse, Strip, "+
		"Replace, "+
		"Metaspace, WordPiece, BPEDecoder, CTC or Sequence", c.Type)
}

func (c *component) decodeReplace() (decoder, error) {
	m, err := c.matcher()
	if err != nil {
		return nil, fmt.Errorf("decoder: Replace: %w", err)
	}
	rewrite := replace(m, c.Content)
	return eachToken(func(_ int, token string) string { return rewrite(aligned{text: token}).text }), nil
}
