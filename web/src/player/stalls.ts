// Counts interruptions as a viewer sees them: the picture stands although it should run.

/** A picture that stands longer than this stands, seconds; clocks of players move in steps. */
const STANDS_S = 0.25;

/** What a look at a <video> tells. */
export interface Look {
  /** Seconds of the wall clock. */
  now: number;
  /** Seconds of the media. */
  time: number;
  /** False while it is paused, sought or at its end. */
  shouldRun: boolean;
}

/** Told by looks at a few times per second, since not every player tells of each time it ran dry. */
export class Stalls {
  count = 0;
  seconds = 0;
  /** Whether it has run since it was started or sought: until then it starts, which is no interruption. */
  private ran = false;
  private moved: { now: number; time: number } | null = null;
  private standing = false;
  private looked = 0;

  look({ now, time, shouldRun }: Look): void {
    if (!shouldRun) {
      this.ran = this.standing = false;
      this.moved = null;
      return;
    }
    const { moved } = this;
    if (moved === null || time !== moved.time) {
      if (moved !== null) this.ran = true;
      this.standing = false;
      this.moved = { now, time };
    } else if (this.ran && now - moved.now >= STANDS_S) {
      this.seconds += now - (this.standing ? this.looked : moved.now);
      if (!this.standing) this.count += 1;
      this.standing = true;
    }
    this.looked = now;
  }
}
