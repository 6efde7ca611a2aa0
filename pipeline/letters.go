package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/trunkline/trunkline/pipeline/deliver"
)

// DeadLetters lists the rows that a sink refused.
func (p *Pipeline) DeadLetters(ctx context.Context, name string, q deliver.LetterQuery) (deliver.Letters, error) {
	s, err := p.sink(name)
	if err != nil {
		return deliver.Letters{}, err
	}
	out, err := deliver.ListLetters(ctx, p.journal, name, q)
	for i := range out.Letters {
		out.Letters[i].Reason = s.hide(out.Letters[i].Reason)
	}
	return out, err
}

// DiscardLetters marks dead letters as done and returns how many. The sink goes on meanwhile.
func (p *Pipeline) DiscardLetters(ctx context.Context, name string, which deliver.Selection) (int, error) {
	s, err := p.sink(name)
	if err != nil {
		return 0, err
	}
	s.letters.Lock()
	defer s.letters.Unlock()
	n, err := deliver.Discard(ctx, p.journal, name, which)
	if n > 0 {
		s.logger.Info("dead letters discarded", "rows", n)
	}
	return n, err
}

// ReplayLetters writes dead letters into their sink again. A sink that runs stands still for it and then goes on.
func (p *Pipeline) ReplayLetters(ctx context.Context, name string, which deliver.Selection) (out deliver.Replayed, err error) {
	s, err := p.sink(name)
	if err != nil {
		return out, err
	}
	s.letters.Lock()
	defer s.letters.Unlock()
	replay := func(ctx context.Context) (err error) {
		out, err = deliver.Replay(ctx, s.options, which)
		return err
	}
	if p.Running() {
		if _, err := p.find(Target{Role: RoleSink, Name: name}); err != nil { // another process may run it
			return out, err
		}
		err = s.standstill(ctx, replay)
	} else {
		err = replay(ctx)
	}
	if errors.Is(err, ErrNotRunning) {
		err = replay(ctx)
	}
	for i := range out.Refused {
		out.Refused[i].Reason = s.hide(out.Refused[i].Reason)
	}
	if out.Written > 0 {
		s.logger.Info("dead letters replayed", "rows", out.Written)
	}
	if err != nil {
		return out, fmt.Errorf("replay dead letters of %s: %s", name, s.words(err))
	}
	return out, nil
}

// sink finds one by its name.
func (p *Pipeline) sink(name string) (*sink, error) {
	sinks := p.roster().sinks
	if i := slices.IndexFunc(sinks, func(s *sink) bool { return s.name == name }); i >= 0 {
		return sinks[i], nil
	}
	return nil, fmt.Errorf("sink %s: %w", name, ErrUnknown)
}
