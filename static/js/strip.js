/** On a narrow screen a strip of links scrolls sideways: the one of this page or tab is in sight. */
export function showCurrent(strip) {
  const current = strip?.querySelector("[aria-current]")?.getBoundingClientRect();
  if (!current) return;
  const { left, right } = strip.getBoundingClientRect();
  if (current.right > right || current.left < left) strip.scrollLeft += current.left - left - 24;
}
