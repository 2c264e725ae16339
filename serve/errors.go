package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/galley-ml/galley/serve/engine"
)

// apiError is an error in OpenAI's format.
type apiError struct {
	status  int
	retry   int // Retry-After in seconds; 0 is none
	Message string
	Type    string
	Param   string
	Code    string
}

func (e *apiError) Error() string { return e.Message }

// MarshalJSON writes null for fields that are not set.
func (e *apiError) MarshalJSON() ([]byte, error) {
	orNull := func(s string) any {
		if s == "" {
			return nil
		}
		return s
	}
	return json.Marshal(map[string]any{"error": map[string]any{
		"message": e.Message, "type": e.Type, "param": orNull(e.Param), "code": orNull(e.Code)}})
}

// at sets the field at fault, and an error code that clients know.
func (e *apiError) at(param, code string) *apiError {
	e.Param, e.Code = param, code
	return e
}

func newError(status int, kind, format string, args ...any) *apiError {
	return &apiError{status: status, Type: kind, Message: fmt.Sprintf(format, args...)}
}

func badRequest(format string, args ...any) *apiError {
	return newError(http.StatusBadRequest, "invalid_request_error", format, args...)
}

func notFound(format string, args ...any) *apiError {
	return newError(http.StatusNotFound, "invalid_request_error", format, args...)
}

func unavailable(format string, args ...any) *apiError {
	e := newError(http.StatusServiceUnavailable, "server_error", format, args...)
	e.retry = 1
	return e
}

// asError converts any error to OpenAI's format.
func asError(err error) *apiError {
	var e *apiError
	var large *http.MaxBytesError
	param, bad := engine.IsBadRequest(err)
	switch {
	case errors.As(err, &e):
		return e
	case errors.As(err, &large):
		return newError(http.StatusRequestEntityTooLarge, "invalid_request_error",
			"the request has more than %d bytes", large.Limit)
	case bad:
		return badRequest("%s", errors.Unwrap(err)).at(param, "")
	case errors.Is(err, engine.ErrFull):
		return unavailable("too many requests are waiting: try again").at("", "overloaded")
	case errors.Is(err, engine.ErrDraining), errors.Is(err, engine.ErrClosed):
		return unavailable("the server is draining: it takes no further requests")
	case errors.Is(err, engine.ErrDeadline):
		return newError(http.StatusGatewayTimeout, "server_error", "the request took longer than its deadline")
	case errors.Is(err, context.Canceled):
		return newError(statusClientClosed, "server_error", "the client has gone")
	}
	return newError(http.StatusInternalServerError, "server_error", "%v", err)
}

// statusClientClosed is nginx's status for clients that disconnect; no client receives it.
const statusClientClosed = 499

// fail writes an error response.
func fail(w http.ResponseWriter, err error) {
	e := asError(err)
	if e.retry > 0 {
		w.Header().Set("Retry-After", fmt.Sprint(e.retry))
	}
	write(w, e.status, e)
}

// write writes a JSON response.
func write(w http.ResponseWriter, status int, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		status, text = http.StatusInternalServerError, []byte(`{"error":{"message":"an answer that is not JSON"}}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(append(text, '\n'))
}
