/** Parts of documents: of everything that the program writes, what a test is about. */

type Part<T> = T extends readonly unknown[] ? { [Place in keyof T]: Part<T[Place]> } : T extends object ? { [Name in keyof T]?: Part<T[Name]> } : T;

export const part = <T>(written: Part<T>): T => written as T;
