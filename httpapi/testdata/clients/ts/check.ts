// What the programs need besides the generated code.
declare const process: { env: Record<string, string | undefined> };

// env is a variable of the environment.
export function env(name: string): string {
  const value = process.env[name];
  if (value === undefined) throw new Error(name + " is not set");
  return value;
}

export function check(what: string, ok: boolean): void {
  if (!ok) throw new Error(what + " is not as it should be");
}
