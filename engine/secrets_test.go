package engine_test

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/monitor"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/store/memstore"
)

// canarySecrets are of all kinds; each ends in a mark that no other text has.
var canarySecrets = map[string]string{
	"plain": "canary-QzPlain7", "quotes": `can"ary\'QzQuote7\`, "signs": "can/ary+&%25 QzSigns7", "long": strings.Repeat("canary-QzLong7.", 40),
	"outer": "outer-canary-QzPlain7-QzOuter7", "unicode": "kanárek-🐤-QzUnico7", "four": "Qz7w",
	"url": "https://us:QzPassw7@hooks.example.com/services/canary/QzPath7890abcdef?code=QzCode7890abcdef",
}

// secretForms are forms in which steps and servers repeat a secret.
var secretForms = map[string]func(string) string{
	"itself": strings.Clone, "Go": strconv.Quote, "form": url.QueryEscape, "path": url.PathEscape,
	"JSON":   func(s string) string { b, _ := json.Marshal(s); return string(b) },
	"PHP":    func(s string) string { b, _ := json.Marshal(s); return strings.ReplaceAll(string(b), "/", `\/`) },
	"basic":  func(s string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte("user:"+s)) },
	"base64": func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) },
	"HEX":    func(s string) string { return strings.ToUpper(hex.EncodeToString([]byte(s))) },
	"cut":    func(s string) string { return strconv.Quote(s[:len(s)-1]) + "..." },
}

// secretIn returns what of a secret is in text, in any form that people can undo.
func secretIn(text, secret string) string {
	mark := secret
	if i := strings.Index(secret, "Qz"); i >= 0 {
		mark = secret[i:min(i+6, len(secret))]
	}
	for name, form := range secretForms {
		for before := range 3 {
			if part := strings.Trim(form(strings.Repeat("x", before) + mark)[before:], `"`); name != "cut" && name != "basic" && name != "base64" && strings.Contains(text, part) {
				return name
			}
		}
	}
	for before := range 3 {
		if part := base64.RawStdEncoding.EncodeToString([]byte("xxx"[:before] + mark)); strings.Contains(text, part[2*before:len(part)-2]) && len(part)-2-2*before > 3 {
			return "base64"
		}
	}
	return ""
}

type secretShouter struct{ secret string }

func (s secretShouter) LogValue() slog.Value {
	return slog.GroupValue(slog.String("inner", s.secret), slog.Any("err", errors.New(s.secret)))
}

// TestSecretsInAllForms has a step that secretIn its secret in all forms by all the
// ways out that there are: error, panic, log, progress, paths of files, outputs,
// the notes of a dry run and the stack of a step that does not return.
func TestSecretsInAllForms(t *testing.T) {
	var mu sync.Mutex
	var events []courier.Event
	var asked []courier.SecretRequest
	h := couriertest.New(t, &engine.Options{
		Secrets: func(_ context.Context, q courier.SecretRequest) (string, error) {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, q)
			return canarySecrets[q.Name], nil
		},
		Observers: []func(courier.Event){func(e courier.Event) {
			mu.Lock()
			defer mu.Unlock()
			events = append(events, e)
		}},
	})
	courier.Register(h.Registry, "demo.tell", secretTeller{}, nil)
	for name, secret := range canarySecrets {
		for form := range secretForms {
			for _, way := range []string{"error", "panic", "log", "progress", "file", "failed file", "output"} {
				switch {
				case form == "cut" && (way == "file" || way == "failed file" || way == "output" || len(secret) <= 5):
					continue // whole secrets only: a beginning may be there by chance
				case (form == "basic" || form == "base64" || form == "HEX") && len(secret) < 6:
					continue // these occur by chance
				case strings.Contains(way, "file") && len(secretForms[form](secret)) > 200:
					continue
				}
				job := h.Job(fmt.Sprintf(`{"name": "tell", "steps": [{"id": "it", "type": "demo.tell", "config": {"secret": "secret:%s", "form": %q, "way": %q}}]}`, name, form, way))
				report, err := h.Engine.Jobs().DryRun(t.Context(), job, nil)
				if err != nil {
					t.Fatal(err)
				}
				r := h.Run(job, nil)
				if want := way != "log" && way != "progress"; (r.State == courier.Failed) != want {
					t.Errorf("%s as %s by %s: it ended %s, %v", name, form, way, r.State, r.Err)
				}
				mu.Lock()
				dump, _ := jsontext.Append(nil, []any{r.Execution, detailed(t, h, r.ID), r.Audit, r.Values, events, report})
				events = nil
				mu.Unlock()
				all := strings.ReplaceAll(string(dump), h.Dir, "") + h.Log() + fmt.Sprintf("%v %+v %#v %s", r.Err, r.Err, report, report)
				if how := secretIn(all, secret); how != "" {
					t.Errorf("%s as %s by %s: it is told as %s in %.2000s", name, form, way, how, all)
					return
				}
			}
		}
	}
	for _, q := range asked { // dry runs too
		if q.Job != "tell" || q.ID != "it" || q.Type != "demo.tell" || q.Step != 0 || q.Monitor+q.Subscription != "" {
			t.Errorf("asked for %+v", q)
		}
	}
}

type secretTeller struct{}

type secretTelling struct {
	Secret, Form, Way string
}

func (secretTeller) Validate(_ context.Context, job *courier.Context, cfg secretTelling) error {
	said := secretForms[cfg.Form](cfg.Secret)
	job.Log().Warn("a note with "+said, "attr", said)
	return errors.New("it would say " + said)
}

func (secretTeller) Execute(_ context.Context, job *courier.Context, cfg secretTelling) (map[string]any, error) {
	said := secretForms[cfg.Form](cfg.Secret)
	switch cfg.Way {
	case "error":
		return nil, fmt.Errorf("it says %w", fmt.Errorf("this: %s", said))
	case "panic":
		panic(errors.New("at the " + said))
	case "log":
		log := job.Log().With("a", said, said, 1).WithGroup("g").With(slog.Group("deeper", "b", []byte(said)))
		log.Warn("it "+said, "valuer", secretShouter{said}, "err", errors.New(said), "any", map[string]*secretTelling{"x": {Secret: said}}, "list", []string{said})
	case "progress":
		job.Progress(1, 1, said)
	case "output":
		return map[string]any{"said": said}, nil
	default:
		path := filepath.Join(filepath.FromSlash(url.PathEscape(said)))
		if cfg.Form == "itself" {
			path = strings.NewReplacer("/", "%2F", "?", "%3F").Replace(said)
		}
		f, err := job.Files().Create(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		if err := f.Commit(); err != nil {
			return nil, err
		}
		if cfg.Way == "failed file" {
			return nil, errors.New("after the file")
		}
	}
	return nil, nil
}

// TestSecretsByPolicy has a policy by which a job gets the secrets of its own
// partner only, however it asks for them.
func TestSecretsByPolicy(t *testing.T) {
	var mu sync.Mutex
	var asked []courier.SecretRequest
	policy := func(_ context.Context, q courier.SecretRequest) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, q)
		owner, _, _ := strings.Cut(q.Name, "/")
		if partner, _, _ := strings.Cut(q.Job+q.Monitor+q.Subscription, "-"); partner != owner {
			return "", courier.Permanent(fmt.Errorf("not for the job %q", q.Job))
		}
		return "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", nil
	}
	h := couriertest.New(t, &engine.Options{Secrets: policy})
	h.Stub("demo.config", nil)
	h.Stub("demo.asks", func(c context.Context, job *courier.Context, _ map[string]any) (map[string]any, error) {
		_, err := job.Secret(c, "acme/key")
		return nil, err
	})
	for _, step := range []string{`{"type": "demo.config", "config": {"k": "secret:acme/key"}}`, `{"type": "demo.asks"}`} {
		h.Run(h.Job(`{"name": "acme-in", "steps": [`+step+`]}`), nil).RequireState(courier.Completed)
		h.Run(h.Job(`{"name": "other-in", "failure_policy": {"type": "retry_step"}, "steps": [`+step+`]}`), nil).
			RequireState(courier.Failed).RequireError(`not for the job "other-in"`)
	}
	report, err := h.Engine.Jobs().DryRun(t.Context(), h.Job(`{"name": "other-in", "steps": [{"type": "demo.config", "config": {"k": "secret:acme/key"}}]}`), nil)
	if err != nil || report.OK() || !asked[len(asked)-1].DryRun {
		t.Errorf("the dry run says %v, %v; it asked for %+v", report, err, asked[len(asked)-1])
	}
	_, err = h.Engine.Subscriptions().Set(t.Context(), notify.Subscription{
		Name: "other-desk", Kind: notify.KindWebhook, Events: []courier.EventType{courier.EventJobFailed},
		Webhook: &notify.WebhookTarget{URL: "https://93.184.215.14/", Secrets: []string{"secret:acme/key"}},
	}, courier.By{})
	if err == nil || !strings.Contains(err.Error(), "acme/key") || asked[len(asked)-1].Subscription != "other-desk" {
		t.Errorf("the subscription got its secret: %v; it asked for %+v", err, asked[len(asked)-1])
	}
}

// A lister's secrets are for its monitor.
func TestSecretsOfMonitors(t *testing.T) {
	asked := make(chan courier.SecretRequest, 10)
	reg := new(courier.Registry)
	courier.RegisterFunc(reg, "demo.take", func(context.Context, *courier.Context, struct{}) (struct{}, error) { return struct{}{}, nil }, nil)
	e := engine.New(memstore.New(), reg, &engine.Options{
		Workspace: t.TempDir(), Listers: map[string]courier.Lister{"demo": secretLister{}},
		Secrets: func(_ context.Context, q courier.SecretRequest) (string, error) {
			select {
			case asked <- q:
			default:
			}
			return "canary-QzPlain7", nil
		},
	})
	_, err := e.Jobs().Define(t.Context(), courier.Job{Name: "job", Steps: []courier.StepSpec{{Type: "demo.take"}}}, nil)
	if err == nil {
		_, err = e.Monitors().Set(t.Context(), monitor.Monitor{Name: "acme-in", Lister: "demo", Path: "/in", Job: "job"}, courier.By{})
	}
	if err = errors.Join(err, e.Start(t.Context())); err != nil {
		t.Fatal(err)
	}
	defer e.Stop(context.WithoutCancel(t.Context()))
	if q := <-asked; q.Monitor != "acme-in" || q.Job != "" || q.Name != "acme/key" {
		t.Errorf("asked for %+v", q)
	}
}

type secretLister struct{}

func (secretLister) Check(courier.Directory) error { return nil }
func (secretLister) Least() time.Duration          { return 0 }
func (secretLister) List(ctx context.Context, job *courier.Context, _ courier.Directory) (courier.Listing, error) {
	_, err := job.Secret(ctx, "acme/key")
	return courier.Listing{}, err
}
